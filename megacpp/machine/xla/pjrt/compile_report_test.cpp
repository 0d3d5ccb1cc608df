// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/compile_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::problem_of;
using namespace std::chrono_literals;

class CompileReportTest : public testing_support::CpuPluginTest {
 protected:
  CompileRequest request(const std::string& text, const ir::Mesh& mesh) const {
    return {.plugin = MEGACPP_PJRT_CPU_PLUGIN, .stablehlo = text, .mesh = mesh};
  }
  const ir::Mesh one_chip_;
  const std::string add_ = testing_support::kAdd;
};

TEST_F(CompileReportTest, APluginsOwnDevicesAreCompiledForInThisProcess) {
  const std::string text = R"(
module @dot {
  sdy.mesh @mesh = <["model"=4]>
  func.func public @main(%x: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                         %w: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    return %y : tensor<8x32xf32>
  }
}
)";
  const ir::Mesh mesh({{"model", 4}});
  const CompileReport report = compile_to_report(request(text, mesh));
  EXPECT_EQ(report.devices, 4);
  EXPECT_EQ(report.device_kind, "cpu");
  ASSERT_TRUE(report.memory.has_value());
  EXPECT_EQ(report.memory->argument, (8 * 16 + 16 * 32) * 4);
  EXPECT_GE(report.flops.value_or(0), 2 * 8 * 16 * 32);
  ASSERT_EQ(report.collectives.size(), 1u) << report.unread;
  EXPECT_EQ(report.collectives[0].axes, "model");
  EXPECT_TRUE(report.out_of_memory.empty());
  EXPECT_GT(report.compile_seconds, 0);
}

TEST_F(CompileReportTest, ATopologyThePluginDoesNotMakeIsRefusedFromTheChild) {
  CompileRequest wanted = request(add_, one_chip_);
  wanted.topology = "v6e:1x1";
  wanted.topology_options = {{"chips_per_host_bounds", std::vector<int64_t>{1, 1, 1}}};
  const base::Problem problem = problem_of(Code::E1505, [&] { compile_in_child(wanted, {.limit = 60s}); });
  EXPECT_NE(problem.got.find("v6e:1x1"), std::string::npos) << problem.got;
}

TEST_F(CompileReportTest, AChildThatDiesOrHangsIsAnErrorHere) {
  const CompileRequest wanted = request(add_, one_chip_);
  const base::Problem died =
      problem_of(Code::E3202, [&] { compile_in_child(wanted, {.prepare = [] { std::abort(); }, .limit = 60s}); });
  EXPECT_NE(died.got.find("SIGABRT"), std::string::npos) << died.got;
  problem_of(Code::E3202,
             [&] { compile_in_child(wanted, {.prepare = [] { std::this_thread::sleep_for(60s); }, .limit = 200ms}); });
}

TEST(CompileReportTextTest, AReportSurvivesItsWayAsText) {
  CompileReport report;
  report.plugin = "pjrt_api=0.115 \"quoted\"";
  report.platform = "tpu";
  report.device_kind = "TPU v6 lite";
  report.devices = 256;
  report.memory_limit = 33'546'039'296;
  report.memory = CompiledMemory{.code = 1, .argument = 2, .output = 3, .alias = 4, .temp = 5, .peak = 6};
  report.flops = 12.92e12;
  report.bytes_accessed = 3;
  report.loops = {.factor = 2.5, .at_least = true};
  report.collectives = {{"all_gather", "data", 16, 100, 24, true, "all-gather.1", "block0.A\n"}};
  report.odd_memory = "temp of -5 bytes";
  report.unread = "why";
  report.out_of_memory = "used 2";
  report.compile_seconds = 41.25;
  const auto copy_of = [](const CompileReport& from) {
    return report_from_json(base::parse_json(base::to_text(to_json(from)), Code::E9001, "test"));
  };
  const CompileReport copy = copy_of(report);
  EXPECT_EQ(base::to_text(to_json(copy)), base::to_text(to_json(report)));
  EXPECT_EQ(copy.memory->temp, 5);
  EXPECT_EQ(copy.odd_memory, report.odd_memory);
  EXPECT_EQ(copy.flops, report.flops);
  EXPECT_EQ(copy.loops.factor, 2.5);
  EXPECT_TRUE(copy.loops.at_least);
  EXPECT_EQ(copy.collectives[0].op_name, "block0.A\n");
  EXPECT_TRUE(copy.collectives[0].at_least);
  const CompileReport empty = copy_of({});
  EXPECT_FALSE(empty.memory.has_value());
  EXPECT_FALSE(empty.flops.has_value());
  EXPECT_FALSE(empty.needed_bytes().has_value());
}

TEST(CompileReportTextTest, WhatNoProgramCanHaveOfMemoryIsNamed) {
  const CompiledMemory sound{
      .code = 100, .argument = 1'000, .output = 900, .alias = 800, .temp = 2'000, .peak = 2'500, .host_temp = 7};
  EXPECT_EQ(contradiction_in(sound), "");
  struct Row {
    int64_t CompiledMemory::*field;
    int64_t bytes;
    const char* said;
  };
  const int64_t constants = 16 << 20;
  for (const Row& row : {Row{&CompiledMemory::temp, -5, "temp of -5 bytes"},
                         Row{&CompiledMemory::host_temp, -1, "host_temp of -1 bytes"},
                         Row{&CompiledMemory::argument, INT64_MAX, "argument of 9223372036854775807 bytes"},
                         Row{&CompiledMemory::alias, 901, "alias of 901 bytes in an output of 900"},
                         Row{&CompiledMemory::peak, 3'201 + constants, "where 3200 are needed in all"}}) {
    CompiledMemory odd = sound;
    odd.*row.field = row.bytes;
    EXPECT_NE(contradiction_in(odd).find(row.said), std::string::npos) << row.said << ": " << contradiction_in(odd);
  }
  EXPECT_EQ(contradiction_in({.code = 100}), "no bytes beside the code");
  CompiledMemory other = sound;
  other.peak = 0;
  EXPECT_EQ(contradiction_in(other), "") << "some plugins do not say";
  other.peak = 3'200 + constants;
  EXPECT_EQ(contradiction_in(other), "") << "constants are in the peak alone";
}

// Where the peak leaves temporaries out, as the CPU plugin's does, the parts are added up.
TEST(CompileReportTextTest, WhatAChipNeedsHoldsTheCode) {
  CompileReport report;
  report.memory = CompiledMemory{.code = 10, .argument = 100, .output = 90, .alias = 80, .temp = 200, .peak = 250};
  EXPECT_EQ(report.needed_bytes(), 100 + 90 - 80 + 200 + 10) << "temporaries are reserved in one piece";
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
