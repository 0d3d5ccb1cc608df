// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "tests/support/command_line.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::has;

CommandResult features(const std::vector<std::string>& more) {
  return testing_support::run_command(
      testing_support::on_recipe("explain", "nam52-tiny.yaml", {"layout.data_parallel=2"}, more));
}

TEST(FeaturesCommandTest, ATableSaysWhatIsOnAndWhy) {
  const CommandResult result = features({"--features"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "backend cpu") && has(result.out, "layout.data_parallel")) << result.out;
  EXPECT_TRUE(has(result.out, "layout.pipeline_parallel is 1")) << result.out;
}

TEST(FeaturesCommandTest, ProgramsGetTheSameRows) {
  const CommandResult result = features({"--features", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["backend"], "cpu");
  bool is_found = false;
  for (const Json& row : json["features"]) {
    if (row["feature"] != "layout.data_parallel") continue;
    is_found = true;
    EXPECT_EQ(row["value"], "2");
    EXPECT_NE(row["state"], "off");
  }
  EXPECT_TRUE(is_found);
}

TEST(FeaturesCommandTest, NothingIsCompiledForIt) {
  EXPECT_TRUE(has(features({"--features", "--target", "v6e:2x2"}).err, "error E1007"));
}

}  // namespace
}  // namespace megacpp::cli
