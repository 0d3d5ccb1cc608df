// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/xla_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace megacpp::cli {
namespace {

namespace plugins = runtime::plugins;

// Numbers as the TPU compiler gave them for a dense model of 1.1B on eight chips.
XlaCompilation on_v6e() {
  XlaCompilation c{.choice = {.flags = {.target = "v6e:2x4"},
                              .kind = plugins::PluginKind::tpu,
                              .plugin = "/opt/libtpu.so",
                              .tpu = hw::parse_target("v6e:2x4", {.places = {}}),
                              .xla_flags = {plugins::PluginKind::tpu, {}}},
                   .argument_bytes = 1'661'772'288,
                   .flops = 12.40e12,
                   .emission_seconds = 0.25,
                   .text_bytes = 1'234'567,
                   .report = {},
                   .collectives = {},
                   .out_of_memory = {},
                   .failure = {}};
  c.report.plugin = "pjrt_api=0.115";
  c.report.platform = "tpu, libtpu 0.0.48.1";
  c.report.device_kind = "TPU v6 lite";
  c.report.devices = 8;
  c.report.memory_limit = 33'546'039'296;
  c.report.memory = runtime::pjrt::CompiledMemory{.code = 495'963'648,
                                                  .argument = 1'661'772'288,
                                                  .output = 1'661'000'000,
                                                  .alias = 1'661'000'000,
                                                  .temp = 4'430'803'008,
                                                  .peak = 5'722'190'592};
  c.report.flops = 12.92e12;
  c.report.bytes_accessed = 164e9;
  c.report.compile_seconds = 41.5;
  c.collectives = {{"all_gather", "data", {10, 1000}, {10, 1000}}, {"all_reduce", "?", {4, 500}, {}, true}};
  return c;
}

std::string text_of(const XlaCompilation& compilation) {
  testing::internal::CaptureStdout();
  print_xla_report(compilation);
  if (!compilation.failure) print_xla_collectives(compilation);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(XlaReportTest, MemoryStandsAgainstTheChipsOwnLimit) {
  const std::string text = text_of(on_v6e());
  for (const char* expected :
       {"v6e:2x4  8 chips", "8 x TPU v6 lite, 33546039296 bytes each", "1661772288", "1.000", "6588538944",
        "19.6% of a chip's 31.24 GiB: it fits", "compile    41.5 s", "1234567 bytes of text, written in 0.25 s"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  const Json json = xla_json(on_v6e());
  EXPECT_EQ(json["needed_bytes"], 6'588'538'944) << "arguments, what is made anew, temporaries and code";
  EXPECT_NEAR(json["memory_share"].get<double>(), 0.1964, 1e-4);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["planned_argument_bytes"], json["memory"]["argument"]);
  EXPECT_TRUE(json["failure"].is_null());
}

TEST(XlaReportTest, RulesOfAnotherCompilerAreSaidToBe) {
  XlaCompilation c = on_v6e();
  const std::string measured = c.choice.tpu->chip.xla.compiler;
  const std::string said = "of v6e are of another compiler (" + measured + ")";
  EXPECT_NE(text_of(c).find("rules      " + said), std::string::npos) << text_of(c);
  EXPECT_EQ(xla_json(c)["other_compiler"].get<std::string>().find(said), 0u);
  c.report.platform = "tpu, TFRT TPU v6 lite\n" + measured;
  EXPECT_EQ(text_of(c).find("another compiler"), std::string::npos) << text_of(c);
  EXPECT_EQ(xla_json(c)["other_compiler"], "");
  c.report.platform.clear();
  EXPECT_EQ(other_compiler(c), "") << "one that died did not say who it is";
  c.report.platform = "tpu, another";
  c.choice.tpu->chip.xla.compiler.clear();
  EXPECT_EQ(other_compiler(c), "") << "nobody knows whose the rules are";
}

TEST(XlaReportTest, AStepTakesAtLeastWhatTheChipsRatesAllow) {
  const Json json = xla_json(on_v6e());
  EXPECT_NEAR(json["roofline_compute_seconds"].get<double>(), 12.92 / 918, 1e-6);
  EXPECT_NEAR(json["roofline_memory_seconds"].get<double>(), 0.1, 1e-6);
  EXPECT_EQ(json["roofline_seconds"], json["roofline_memory_seconds"]);
  EXPECT_NE(text_of(on_v6e()).find("at least 100.00 ms"), std::string::npos);
  // XLA's cost takes the body of a loop once.
  XlaCompilation loops = on_v6e();
  loops.report.loops.factor = 2.5;
  EXPECT_NEAR(xla_json(loops)["roofline_seconds"].get<double>(), 0.25, 1e-6);
  for (const char* expected : {"3.2300e+13", "1.2920e+13", "bytes accessed, loops taken once"})
    EXPECT_NE(text_of(loops).find(expected), std::string::npos) << expected << "\n" << text_of(loops);
  EXPECT_EQ(text_of(loops).find(">=3"), std::string::npos);
  loops.report.loops.at_least = true;
  for (const char* expected : {">=3.2300e+13", "count once"})
    EXPECT_NE(text_of(loops).find(expected), std::string::npos) << expected << "\n" << text_of(loops);
  EXPECT_EQ(xla_json(loops)["loop_factor_at_least"], true);
}

TEST(XlaReportTest, WhatDiffersFromOursIsMarked) {
  const std::string text = text_of(on_v6e());
  EXPECT_NE(text.find("XLA only"), std::string::npos) << text;
  EXPECT_NE(text.find(">=4"), std::string::npos) << text;
  XlaCompilation unread = on_v6e();
  unread.report.unread = "HloModuleProto: it ends within field 3";
  unread.report.loops.at_least = true;
  EXPECT_NE(text_of(unread).find("not read: HloModuleProto"), std::string::npos);
  EXPECT_NE(text_of(unread).find("of a program that was not read count once"), std::string::npos) << text_of(unread);
  XlaCompilation none = on_v6e();
  none.collectives.clear();
  EXPECT_NE(text_of(none).find("none"), std::string::npos);
}

// Without a limit, a cost or memory statistics the rest is still said.
TEST(XlaReportTest, APluginMayLeaveThingsOut) {
  XlaCompilation bare = on_v6e();
  bare.choice.tpu.reset();
  bare.report.memory.reset();
  bare.report.memory_limit.reset();
  bare.report.flops.reset();
  const std::string text = text_of(bare);
  EXPECT_EQ(text.find("at least"), std::string::npos) << text;
  EXPECT_EQ(text.find("fits"), std::string::npos) << text;
  EXPECT_NE(text.find("memory of a chip: not known: the plugin does not say"), std::string::npos) << text;
  EXPECT_NE(text.find("not said"), std::string::npos) << text;
  EXPECT_TRUE(xla_json(bare)["fits"].is_null());
  EXPECT_TRUE(xla_json(bare)["roofline_seconds"].is_null());
}

TEST(XlaReportTest, AProgramThatDoesNotFitIsReportedWithItsNumbers) {
  XlaCompilation over = on_v6e();
  over.report.memory.reset();
  over.report.out_of_memory =
      "Ran out of memory on HBM, the total memory required for HLO temporaries (62.12G) exceeds available HBM "
      "(31.24G). HLO module: program.";
  read_out_of_memory(over, "nam56r");
  ASSERT_TRUE(over.failure.has_value());
  EXPECT_EQ(over.failure->code(), base::Code::E2002);
  EXPECT_EQ(over.failure->exit_status(), 3);
  EXPECT_EQ(over.failure->problem().where, "nam56r on v6e:2x4");
  const std::string text = text_of(over);
  for (const char* expected : {"out of memory: compile-time HBM", "62.12 GiB", "31.24 GiB", "planned arguments"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  const Json json = xla_json(over);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["failure"]["code"], "E2002");
  EXPECT_GT(json["failure"]["out_of_memory"]["used"].get<int64_t>(), 60'000'000'000);
}

TEST(XlaReportTest, AnyOtherRefusalIsKeptWhole) {
  XlaCompilation odd = on_v6e();
  odd.report.out_of_memory = "quota of compilations used up";
  read_out_of_memory(odd, "nam56r");
  EXPECT_NE(odd.failure->problem().got.find("quota of compilations used up"), std::string::npos);
  XlaCompilation fine = on_v6e();
  read_out_of_memory(fine, "nam56r");
  EXPECT_FALSE(fine.failure.has_value());
}

TEST(XlaReportTest, APluginThatDiedLeavesAReport) {
  XlaCompilation dead = on_v6e();
  dead.report = {};
  dead.failure.emplace(base::Code::E3202, base::Problem{.got = "it was ended by SIGABRT"});
  const std::string text = text_of(dead);
  for (const char* expected : {"v6e:2x4", "/opt/libtpu.so", "failed: E3202", "planned arguments 1661772288"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  EXPECT_EQ(xla_json(dead)["failure"]["got"], "it was ended by SIGABRT");
}

}  // namespace
}  // namespace megacpp::cli
