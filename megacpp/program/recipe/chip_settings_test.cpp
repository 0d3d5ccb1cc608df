// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/chip_settings.h"

#include <gtest/gtest.h>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

using base::Code;
using testing_support::problem_of;

constexpr const char* kFourChips = R"(
model: {pattern: E, depth: 2, hidden: 8, vocab: 256, feed_forward: {intermediate: 16}}
train: {batch: 4, sequence: 8, steps: 5}
layout: {data_parallel: 4}
)";

Recipe four_chips_with(const std::vector<std::string>& overrides) { return parse(kFourChips, "four.yaml", overrides); }
base::Problem refused(Code code, const std::string& assignment) {
  return problem_of(code, [&] { four_chips_with({assignment}); });
}

TEST(ChipSettingsTest, OneChipsLimitStandsBeforeThatOfAll) {
  EXPECT_TRUE(chip_limits(four_chips_with({}).hardware, 4).empty()) << "nothing said: the machine's memory is shared";
  const Recipe recipe = four_chips_with({"hardware.limit=1.5GiB", "hardware.limits=[3=256MiB, 0=2GB]"});
  EXPECT_EQ(recipe.hardware.limit.bytes, int64_t{3} << 29);
  const std::vector<int64_t> wanted = {2'000'000'000, int64_t{3} << 29, int64_t{3} << 29, int64_t{256} << 20};
  EXPECT_EQ(chip_limits(recipe.hardware, 4), wanted);
  EXPECT_EQ(chip_limits(four_chips_with({"hardware.limits=[1=4096]"}).hardware, 3), (std::vector<int64_t>{0, 4096, 0}));
}

TEST(ChipSettingsTest, FaultsNameAChipAndAMoment) {
  const Recipe recipe =
      four_chips_with({"hardware.fail_allocation=[chip 3 step 2, chip 0 step load, chip 1 step compile]"});
  using At = FailAllocation::At;
  const std::vector<FailAllocation> wanted = {{3, At::step, 2}, {0, At::load, -1}, {1, At::compile, -1}};
  EXPECT_EQ(fail_allocations(recipe.hardware), wanted);
}

TEST(ChipSettingsTest, PrintedSettingsReadBack) {
  const Recipe recipe = four_chips_with({"hardware.target=v6e:16x16", "hardware.limit=1.5GiB",
                                         "hardware.limits=[3=256MiB]", "hardware.fail_allocation=[chip 3 step 2]"});
  EXPECT_EQ(parse(print(recipe), "printed"), recipe);
  EXPECT_EQ(four_chips_with({"hardware.target=v6e:2x2", "hardware.target="}), four_chips_with({}))
      << "an empty target is this machine";
}

TEST(ChipSettingsTest, SizesThatAreUnclearGetASuggestion) {
  const base::Problem unclear = refused(Code::E1002, "hardware.limit=512M");
  EXPECT_EQ(unclear.got, "'512M'");
  EXPECT_EQ(unclear.wanted, "a number of bytes: 512MiB, 1.5GiB, 2GB or 4096");
  EXPECT_EQ(unclear.next, "did you mean '512MiB'?");
  EXPECT_EQ(refused(Code::E1002, "hardware.limit=much").next.substr(0, 15), "hardware.limit:");
  EXPECT_EQ(refused(Code::E1002, "hardware.limit=-1").got, "'-1'");
  EXPECT_EQ(refused(Code::E1003, "hardware.limits=[3=256M]").next, "write the size as 256MiB");
  EXPECT_EQ(refused(Code::E1003, "hardware.limits=[256MiB]").got, "'256MiB'");
  EXPECT_EQ(refused(Code::E1003, "hardware.limits=[1=0]").got, "'1=0'") << "a chip needs some memory";
}

TEST(ChipSettingsTest, ChipsAndStepsThatAreNotThereAreRefused) {
  const Recipe fifth = four_chips_with({"hardware.limits=[4=1MiB]"});
  EXPECT_EQ(problem_of(Code::E1003, [&] { chip_limits(fifth.hardware, 4); }).wanted, "a chip from 0 to 3: there are 4");
  EXPECT_EQ(chip_limits(fifth.hardware, 8)[4], 1 << 20) << "a plan for more hardware than the layout has chips";
  EXPECT_EQ(refused(Code::E1003, "hardware.fail_allocation=[chip 4 step 0]").wanted,
            "a chip from 0 to 3: the layout has 4");
  EXPECT_EQ(refused(Code::E1003, "hardware.fail_allocation=[chip 0 step 5]").wanted, "a step from 0 to 4");
  for (const char* fault : {"chip 0", "chip -1 step 0", "chip x step 0", "chip 0 step soon", "step 0 chip 0"})
    EXPECT_EQ(refused(Code::E1003, "hardware.fail_allocation=[" + std::string(fault) + "]").wanted,
              "chip CHIP step N, with N a number, load or compile");
}

TEST(ChipSettingsTest, NothingIsSaidTwice) {
  EXPECT_EQ(refused(Code::E1003, "hardware.limits=[1=1MiB, 1=2MiB]").wanted, "one limit for chip 1");
  EXPECT_EQ(refused(Code::E1003, "hardware.fail_allocation=[chip 1 step 2, chip 1 step 2]").wanted, "each fault once");
  EXPECT_NO_THROW(four_chips_with({"hardware.fail_allocation=[chip 1 step 2, chip 1 step 3]"}));
}

}  // namespace
}  // namespace megacpp::recipe
