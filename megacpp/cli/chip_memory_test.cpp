// SPDX-License-Identifier: Apache-2.0
// What a run says of the memory of its chips, and what it does when one has too little.
#include "megacpp/cli/chip_memory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/command_line.h"

namespace megacpp::cli {
namespace {

using Result = testing_support::CommandResult;

Result train(std::vector<std::string> settings, const std::vector<std::string>& more = {}) {
  settings.insert(settings.begin(), {"train.steps=2", "train.sequence=32", "train.batch=2", "model.depth=12"});
  return testing_support::run_command(testing_support::on_recipe("train", "nam56r-tiny.yaml", settings, more));
}

Json chips_of(const std::vector<std::string>& settings) {
  const Result result = train(settings, {"--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out)["chips"];
}

TEST(ChipMemoryTest, EveryChipIsListedWithPlanMeasurementAndLimit) {
  const Json chips = chips_of({"layout.data_parallel=2", "hardware.limit=1GiB"});
  ASSERT_EQ(chips.size(), 2U);
  for (const Json& chip : chips) {
    EXPECT_EQ(chip["measured_peak_bytes"], chip["planned_peak_bytes"]);
    EXPECT_EQ(chip["bytes_used"], chip["planned_peak_bytes"]);
    EXPECT_EQ(chip["bytes_limit"], int64_t{1} << 30);
    EXPECT_EQ(chip["coordinates"]["data"], chip["chip"]);
  }
  const Json alone = chips_of({});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0]["coordinates"], Json::object());
  EXPECT_GT(alone[0]["bytes_limit"], alone[0]["bytes_used"]) << "the machine's memory";
}

TEST(ChipMemoryTest, TheChipWithTheLeastRoomComesFirst) {
  const std::vector<std::string> settings = {"layout.data_parallel=2", "hardware.limit=1GiB",
                                             "hardware.limits=[1=900MiB]"};
  EXPECT_EQ(chips_of(settings)[0]["chip"], 1);
  const Result text = train(settings);
  EXPECT_NE(text.out.find("(the worst: chip 1: data 1)"), std::string::npos) << text.out;
}

TEST(ChipMemoryTest, ASmallChipIsNamedWithWhatFillsIt) {
  const Result result = train({"layout.data_parallel=2", "hardware.limits=[1=64KiB]"});
  EXPECT_EQ(result.status, 2);
  for (const char* part : {"error E1605", "chip 1: data 1 at (1) on host 0 of host:2", "planned", "optimizer ",
                           "; largest ", "not 65536 bytes (64.00 KiB)", "next:"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

TEST(ChipMemoryTest, FaultsEndTheCommandWithTheirClass) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"compile", "error E2002"}, {"load", "error E2003"}, {"1", "error E2004"}};
  for (const auto& [step, code] : faults) {
    const Result result =
        train({"layout.data_parallel=2", "ladder.rungs=[]", "hardware.fail_allocation=[chip 1 step " + step + "]"});
    EXPECT_EQ(result.status, 3) << step;
    EXPECT_NE(result.err.find(code), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("chip 1: data 1 on host "), std::string::npos) << result.err;
  }
  EXPECT_EQ(train({"layout.data_parallel=2"}).status, 0) << "the same process runs again";
}

TEST(ChipMemoryTest, BadSettingsAreRefusedBeforeAnythingRuns) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"hardware.limit=512M", "did you mean '512MiB'?"},
      {"hardware.limits=[1=1GiB]", "a chip from 0 to 0"},
      {"hardware.fail_allocation=[chip 0 step 2]", "a step from 0 to 1"},
      {"hardware.limt=1GiB", "did you mean 'hardware.limit'?"}};
  for (const auto& [setting, said] : mistakes) {
    const Result result = train({setting});
    EXPECT_EQ(result.status, 2) << setting;
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace megacpp::cli
