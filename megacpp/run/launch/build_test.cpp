// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/build.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/source_hash.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

TEST(BuildTest, TheCodeVersionHasTheContentOfTheSources) {
  EXPECT_EQ(source_hash().size(), 16U);
  EXPECT_EQ(source_hash().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(code_version().ends_with("+" + source_hash())) << code_version();
}

TEST(BuildTest, OwnBackendsAreTheBuildItselfAndPluginsHaveAName) {
  recipe::Recipe recipe;
  EXPECT_EQ(platform_of(recipe), "");
  const testing_support::TemporaryFolder folder;
  base::write_file_atomically(folder / "pjrt_c_api_cpu_plugin.so", "one");
  recipe::apply_overrides(
      recipe, std::vector<std::string>{"backend=xla", "xla.plugin=" + (folder / "pjrt_c_api_cpu_plugin.so").string()});
  const std::string one = platform_of(recipe);
  EXPECT_TRUE(one.starts_with("plugin cpu")) << one;
  base::write_file_atomically(folder / "pjrt_c_api_cpu_plugin.so", "two");
  EXPECT_NE(platform_of(recipe), one) << "another file is another plugin";
}

TEST(BuildTest, VirtualChipsHaveThreadsAndAProcessorOthersHaveANameOfTheirOwn) {
  recipe::Recipe recipe;
  recipe.train.threads = 8;
  const hw::HostRates rates{
      .matrix_flops = 1, .bytes_per_second = 1, .cores = 8, .memory = 1 << 20, .processor = "any", .date = ""};
  hw::Slice slice = hw::parse_target("host:2", {.host_rates = [&] { return rates; }});
  EXPECT_EQ(build_of(recipe, slice), (catalog::Build{.code_version = code_version(),
                                                     .platform = "",
                                                     .threads = 4,
                                                     .processor = runtime::this_processor().name()}));
  slice.chip.name = "cuda";
  EXPECT_EQ(build_of(recipe, slice), (catalog::Build{.code_version = code_version()}));
  EXPECT_EQ(build_of(recipe, hw::parse_target("v6e:2x2")), (catalog::Build{.code_version = code_version()}));
}

}  // namespace
}  // namespace megacpp::launch
