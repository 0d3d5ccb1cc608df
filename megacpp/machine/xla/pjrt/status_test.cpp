// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/status.h"

#include <gtest/gtest.h>

#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;

TEST(StatusTest, MemoryThatRanOutHasTheClassOfItsPhase) {
  EXPECT_EQ(code_of(StatusCode::resource_exhausted, Phase::compile), Code::E2002);
  EXPECT_EQ(code_of(StatusCode::resource_exhausted, Phase::load), Code::E2003);
  EXPECT_EQ(code_of(StatusCode::resource_exhausted, Phase::transfer), Code::E2004);
  EXPECT_EQ(code_of(StatusCode::resource_exhausted, Phase::execute), Code::E2004);
}

TEST(StatusTest, WhatAPluginDoesNotDoIsTheUsersChoiceOfPlugin) {
  EXPECT_EQ(code_of(StatusCode::unimplemented, Phase::compile), Code::E1505);
  EXPECT_EQ(code_of(StatusCode::not_found, Phase::compile), Code::E1505);
  EXPECT_EQ(code_of(StatusCode::unimplemented, Phase::create_topology), Code::E1505);
  EXPECT_EQ(code_of(StatusCode::invalid_argument, Phase::create_topology), Code::E1506);
  EXPECT_EQ(code_of(StatusCode::not_found, Phase::create_topology), Code::E1506);
}

TEST(StatusTest, TheRestIsAFailedCall) {
  for (const Phase phase : {Phase::set_up, Phase::create_client, Phase::create_topology, Phase::compile, Phase::load,
                            Phase::transfer, Phase::execute, Phase::query}) {
    EXPECT_EQ(code_of(StatusCode::internal, phase), Code::E3201) << phase_name(phase);
  }
}

/// A message of two lines more, and how it stands in a part of an error: below the part's first line.
const std::string kLines = "Ran out of memory on HBM.\n  1. 2.0G\n  2. 1.0G";
const std::string kLinesOfPart = "Ran out of memory on HBM.\n            1. 2.0G\n            2. 1.0G";

TEST(StatusTest, AnErrorKeepsTheMessageWholeAndTheFailureApart) {
  const PluginError error({StatusCode::internal, kLines}, Phase::compile, "libtpu.so");
  EXPECT_EQ(error.code(), Code::E3201);
  EXPECT_EQ(error.problem().where, "libtpu.so, compiling");
  EXPECT_EQ(error.problem().got, "INTERNAL: " + kLinesOfPart);
  EXPECT_EQ(error.failure().message, kLines);
  EXPECT_EQ(error.phase(), Phase::compile);
}

memory::OutOfMemory exhausted(const std::string& message, Phase phase, const std::string& plugin) {
  try {
    raise_failure({StatusCode::resource_exhausted, message}, phase, plugin);
  } catch (const memory::OutOfMemory& error) {
    return error;
  }
}

TEST(StatusTest, ACardWithoutCudnnsAttentionIsToldOfTheOther) {
  const auto next = [](const char* message, Phase phase) {
    return PluginError({StatusCode::invalid_argument, message}, phase, "gpu.so").problem().next;
  };
  const std::string blocked = "set xla.attention: blocked, which needs no cuDNN";
  for (const char* message : {"Unsupported graph of __cudnn$fmhaSoftmax", "cuDNN FMHA needs sm80"}) {
    EXPECT_EQ(next(message, Phase::compile), blocked);
    EXPECT_NE(next(message, Phase::transfer), blocked);
  }
  EXPECT_NE(next("cuDNN could not autotune a product", Phase::compile), blocked);
}

TEST(StatusTest, RunningOutOfMemoryIsTheErrorOfAllBackends) {
  const memory::OutOfMemory error = exhausted(kLines, Phase::compile, "libtpu.so");
  EXPECT_EQ(error.code(), Code::E2002);
  EXPECT_EQ(error.exit_status(), 3);
  EXPECT_EQ(error.problem().where, "libtpu.so, compiling");
  EXPECT_EQ(error.problem().got, "compile-time HBM: " + kLinesOfPart);
  EXPECT_EQ(error.facts().text, kLines);
  EXPECT_EQ(error.facts().cls, memory::OomClass::compile);
  EXPECT_EQ(error.in_steps(4, 4).facts().step, 4);
  EXPECT_EQ(error.in_steps(4, 4).problem().where, "libtpu.so, compiling, step 4");
  EXPECT_EQ(error.in_steps(11, 20).facts().first_step, 11);
  EXPECT_EQ(error.in_steps(11, 20).problem().where, "libtpu.so, compiling, steps 11 to 20");
  EXPECT_THROW(raise_failure({StatusCode::resource_exhausted, kLines}, Phase::query, "libtpu.so"), PluginError)
      << "nothing was being placed";
}

TEST(StatusTest, AMessageThatMemoryRanOutIsReadIntoNumbers) {
  const memory::OutOfMemory error =
      exhausted("Out of memory while trying to allocate 128.79GiB with allocator GPU_0_bfc on device 0.",
                Phase::execute, "xla_cuda_plugin.so");
  EXPECT_EQ(error.code(), Code::E2004);
  EXPECT_NE(error.problem().got.find("128.79 GiB wanted"), std::string::npos) << error.problem().got;
  EXPECT_EQ(error.facts().cls, memory::OomClass::runtime);
  EXPECT_NEAR(static_cast<double>(error.facts().wanted.value()), 128.79 * 0x1p30, 1.0);
}

TEST(StatusTest, ACodeOfALaterVersionIsUnknown) { EXPECT_EQ(status_name(static_cast<StatusCode>(99)), "UNKNOWN"); }

}  // namespace
}  // namespace megacpp::runtime::pjrt
