// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/without_effect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/command_line.h"

namespace megacpp::cli {
namespace {

using Result = testing_support::CommandResult;

Result run_on(const std::string& command, std::vector<std::string> settings,
              const std::vector<std::string>& more = {}) {
  settings.insert(settings.begin(), {"train.steps=2", "train.sequence=32", "train.batch=2", "model.depth=12"});
  return testing_support::run_command(testing_support::on_recipe(command, "nam56r-tiny.yaml", settings, more));
}

size_t notes_in(const Result& result) {
  size_t notes = 0;
  for (size_t at = result.err.find("note  "); at != std::string::npos; at = result.err.find("note  ", at + 1)) ++notes;
  return notes;
}

TEST(WithoutEffectTest, EveryCommandOnARecipeNamesTheKeyAndWhatDecidesInstead) {
  for (const char* command : {"train", "plan", "compile", "explain"}) {
    SCOPED_TRACE(command);
    const Result result = run_on(command, {"layout.schedule=gpipe"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("note       --set layout.schedule has no effect here: layout.pipeline_parallel is 1\n"),
              std::string::npos)
        << result.err;
    EXPECT_EQ(notes_in(result), 1U) << result.err;
    EXPECT_EQ(notes_in(run_on(command, {})), 0U) << "nothing is set";
  }
}

TEST(WithoutEffectTest, FitSpeaksOfWhatNoLayoutOfTheHardwareHonours) {
  const Result here = run_on("fit", {"layout.schedule=gpipe", "xla.cache=off"}, {"--hardware", "host:1"});
  EXPECT_EQ(here.status, 0) << here.err;
  EXPECT_NE(here.err.find("note       --set xla.cache has no effect here: only backend xla reads it\n"),
            std::string::npos);
  EXPECT_EQ(notes_in(here), 1U) << here.err;
}

TEST(WithoutEffectTest, PlansForTpusGoByTheBackendThatRunsThere) {
  const Result result =
      run_on("plan", {"layout.prefetch=2", "xla.cache=off", "train.batch=4", "hardware.target=v6e:2x2"}, {"--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(
      Json::parse(result.out).at("without_effect"),
      Json::parse(R"([{"key": "layout.prefetch", "origin": "--set", "reason": "XLA schedules its collectives"}])"));
}

TEST(WithoutEffectTest, TrainingTellsProgramsToo) {
  const Json set = Json::parse(run_on("train", {"hardware.target=v6e:2x2"}, {"--json"}).out).at("without_effect");
  ASSERT_EQ(set.size(), 1U) << set.dump();
  EXPECT_EQ(set[0].at("key"), "hardware.target");
  EXPECT_EQ(set[0].at("reason"), "backend cpu runs on this machine; plan and fit read it");
  EXPECT_EQ(Json::parse(run_on("train", {}, {"--json"}).out).at("without_effect"), Json::array());
}

}  // namespace
}  // namespace megacpp::cli
