// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/remember.h"

#include <gtest/gtest.h>

#include "megacpp/cli/xla_compile.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/assumptions.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

namespace plugins = runtime::plugins;

class RememberTest : public testing::Test {
 protected:
  static XlaCompilation compilation() {
    return {.choice = {.flags = {.target = "v6e:2x2"},
                       .kind = plugins::PluginKind::tpu,
                       .plugin = "libtpu.so",
                       .tpu = hw::parse_target("v6e:2x2"),
                       .xla_flags = {plugins::PluginKind::tpu, {}}},
            .report = {},
            .collectives = {},
            .out_of_memory = {},
            .failure = {}};
  }
  void remember(const XlaCompilation& compilation) {
    launch::UsersCatalog none({.none = true}, catalog::Access::read);
    const fit::Estimate estimate =
        fit::make_estimate(recipe_, launch::assumptions_for(recipe_, *compilation.choice.tpu, none));
    remember_compilation(catalog_, estimate, compilation);
  }

  const recipe::Recipe recipe_ = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                                              std::vector<std::string>{"layout.data_parallel=4", "backend=xla"});
  const testing_support::TemporaryFolder folder_;
  catalog::Catalog catalog_ = catalog::Catalog::open(folder_ / "catalog.sqlite");
};

TEST_F(RememberTest, TheCompilersPeakCorrectsOtherPlansOfTheLane) {
  XlaCompilation one = compilation();
  one.report.memory = runtime::pjrt::CompiledMemory{.code = 1000, .peak = 12'345'678};
  remember(one);
  const std::vector<catalog::Sample> samples = catalog_.samples("xla v6e placement=megacpp", catalog::kPeakBytes);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].measured, 12'345'678) << "without its code";
  EXPECT_EQ(samples[0].signature.hardware, "v6e:2x2");
  EXPECT_GT(catalog::total(samples[0].parts), 0);
  const catalog::Outcome outcome = catalog_.entries().at(0).outcomes.at(0);
  EXPECT_EQ(outcome.phase, "compile");
  EXPECT_EQ(outcome.limit_bytes, 33'546'039'296);
  EXPECT_EQ(outcome.measured_bytes, 12'345'678);
}

TEST_F(RememberTest, WhatDoesNotFitTheCompilerIsAFailureAndTeachesNoPeak) {
  XlaCompilation one = compilation();
  one.report.out_of_memory =
      "RESOURCE_EXHAUSTED: the total memory required for HLO temporaries (62.12G) exceeds available HBM (31.24G)";
  read_out_of_memory(one, recipe_.name);
  remember(one);
  const catalog::Outcome outcome = catalog_.entries().at(0).outcomes.at(0);
  EXPECT_FALSE(outcome.fits);
  EXPECT_EQ(outcome.oom_class, "compile-time HBM");
  EXPECT_NEAR(static_cast<double>(outcome.measured_bytes.value()), 62.12 * (1 << 30), 1);
  EXPECT_TRUE(catalog_.measured_lanes().empty());
}

}  // namespace
}  // namespace megacpp::cli
