// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/chip_fit.h"

#include <gtest/gtest.h>

namespace megacpp::memory {
namespace {

MemoryPlan plan_of(int64_t bytes) {
  MemoryPlan plan;
  plan.total_bytes = bytes;
  plan.items = {{ir::Role::weight, "A", "block00", bytes / 4},
                {ir::Role::temporary, "A", "block00", bytes / 2},
                {ir::Role::weight, "M", "block01", bytes / 8}};
  plan.largest = {{"dot f32[8,8]", "block00.A.core", ir::Role::temporary, bytes / 2},
                  {"embed.weight", "embed", ir::Role::weight, bytes / 4}};
  return plan;
}

class ChipFitTest : public testing::Test {
 protected:
  MemoryPlan small_ = plan_of(1000), large_ = plan_of(4000);
  ir::Mesh mesh_ = ir::Mesh({{"stage", 2}, {"data", 2}});
  std::vector<const MemoryPlan*> plans_ = {&small_, &small_, &large_, &large_};
};

TEST_F(ChipFitTest, WithoutLimitsTheMachineIsShared) {
  const FitCheck fits = check_fit(plans_, {.machine_bytes = 10000});
  EXPECT_EQ(fits.misfit, std::nullopt) << "a large plan may use what a small one leaves";
  EXPECT_EQ(fits.total_bytes, 10000);
  EXPECT_EQ(fits.chips[0].chip, 2) << "the worst first, of equals the first";
  EXPECT_EQ(fits.chips[0].limit_bytes, 2500);
  EXPECT_EQ(fits.chips[3].chip, 1);

  const FitCheck over = check_fit(plans_, {.machine_bytes = 9999});
  EXPECT_EQ(over.misfit, OomClass::host);
  const OutOfMemory error = misfit_error(over, mesh_, "here");
  EXPECT_EQ(error.code(), base::Code::E2001);
  EXPECT_EQ(error.facts().wanted, 10000);
  EXPECT_EQ(error.facts().limit, 9999);
  EXPECT_NE(error.problem().got.find("10000 on all 4 chips"), std::string::npos) << error.what();
}

TEST_F(ChipFitTest, AChipBeyondItsOwnLimitIsNamedWithItsPlaceAndContents) {
  const FitCheck check = check_fit(plans_, {.of_chips = {0, 900, 4000, 0}, .machine_bytes = 20000});
  EXPECT_EQ(check.misfit, OomClass::compile);
  EXPECT_EQ(check.overflowing(), 1);
  EXPECT_EQ(check.chips[0].chip, 1) << "though chip 2 has no byte to spare";
  const OutOfMemory error = misfit_error(check, mesh_, "here");
  EXPECT_EQ(error.problem().where, "chip 1: stage 0, data 1 on host here");
  EXPECT_EQ(error.problem().got,
            "1000 bytes (1000 B) planned, 100 B too much: temporary 500 B, weight 375 B; largest 500 B dot f32[8,8] "
            "@block00.A.core, 250 B embed.weight @embed");
  EXPECT_EQ(error.problem().wanted, "at most the 900 bytes (900 B) of this chip");
  EXPECT_EQ(error.facts().chip, 1);
  EXPECT_EQ(error.facts().roles.at(1).bytes, 375);
  EXPECT_EQ(error.facts().largest.at(1).what, "embed.weight");
}

TEST(HostFitTest, StateThatTheHostCannotHoldIsE2001WithBothNumbers) {
  const OutOfMemory error = host_misfit_error({.offloaded_bytes = 4096, .limit_bytes = 1024, .chip = 2}, "host here");
  EXPECT_EQ(error.code(), base::Code::E2001);
  EXPECT_EQ(error.facts().cls, OomClass::host);
  EXPECT_EQ(error.facts().chip, 2);
  EXPECT_EQ(error.facts().wanted, 4096);
  EXPECT_EQ(error.facts().limit, 1024);
  EXPECT_NE(error.problem().got.find("4096 bytes"), std::string::npos) << error.what();
  EXPECT_EQ(
      error.problem().next,
      "set layout.offload: none, split the state over more hosts (layout.zero with layout.data_parallel), or free "
      "memory there");
  ASSERT_EQ(error.facts().roles.size(), 1U);
  EXPECT_EQ(error.facts().roles[0].role, ir::Role::optimizer);
  EXPECT_EQ(error.facts().roles[0].bytes, 4096);
}

TEST(HostFitTest, OffloadedActivationsHaveTheirOwnRoleAndWayOut) {
  const OutOfMemory error =
      host_misfit_error({.offloaded_bytes = 4096, .activation_bytes = 4096, .limit_bytes = 1024}, "host here");
  EXPECT_EQ(error.problem().next,
            "set layout.offload: none, offload fewer blocks (layout.offload_blocks), or free memory there");
  ASSERT_EQ(error.facts().roles.size(), 1U);
  EXPECT_EQ(error.facts().roles[0].role, ir::Role::activation);
  const OutOfMemory both =
      host_misfit_error({.offloaded_bytes = 4096, .activation_bytes = 1024, .limit_bytes = 1024}, "host here");
  ASSERT_EQ(both.facts().roles.size(), 2U);
  EXPECT_EQ(both.facts().roles[0].bytes, 3072) << "of state";
  EXPECT_EQ(both.facts().roles[1].bytes, 1024);
  EXPECT_NE(both.problem().next.find("layout.offload_blocks), split the state"), std::string::npos) << both.what();
}

// The ladder answers a device that is too small, and not a host beside devices.
TEST_F(ChipFitTest, MemoryThatChipsShareMayBeADevices) {
  const Limits of_host{.machine_bytes = 1}, of_device{.machine_bytes = 1, .shared_class = OomClass::compile};
  EXPECT_EQ(misfit_error(check_fit(plans_, of_host), mesh_, "here").facts().cls, OomClass::host);
  const FitCheck check = check_fit(plans_, of_device);
  EXPECT_EQ(check.misfit, OomClass::compile);
  const OutOfMemory device = misfit_error(check, mesh_, "here");
  EXPECT_EQ(device.facts().cls, OomClass::compile);
  EXPECT_EQ(device.code(), base::Code::E2001);
  EXPECT_EQ(device.facts().limit, 1) << "of all together";
}

TEST(HostFitTest, TheSnapshotOfCheckpointsIsCountedAndNamed) {
  EXPECT_TRUE((HostFit{.offloaded_bytes = 4096, .snapshot_bytes = 1024, .limit_bytes = 5120}).fits());
  EXPECT_FALSE((HostFit{.offloaded_bytes = 4096, .snapshot_bytes = 1025, .limit_bytes = 5120}).fits());
  const OutOfMemory both = host_misfit_error({.offloaded_bytes = 4096, .snapshot_bytes = 2048, .limit_bytes = 1}, "a");
  EXPECT_EQ(both.facts().wanted, 6144);
  EXPECT_NE(both.problem().got.find("2048 bytes"), std::string::npos) << both.what();
  EXPECT_NE(both.problem().next.find("checkpoint.every=-1"), std::string::npos) << both.what();
  const OutOfMemory snapshot = host_misfit_error({.snapshot_bytes = 2048, .limit_bytes = 1}, "a");
  EXPECT_EQ(snapshot.problem().next.find("layout.offload"), std::string::npos) << snapshot.what();
  EXPECT_TRUE(snapshot.facts().roles.empty()) << "no role of a program";
}

TEST_F(ChipFitTest, OtherChipsThatOverflowAreNamedAfterTheWorst) {
  const FitCheck check = check_fit(plans_, {.of_chips = {999, 990, 3000, 3500}});
  EXPECT_EQ(check.overflowing(), 4);
  const OutOfMemory error = misfit_error(check, mesh_, "here");
  EXPECT_EQ(error.facts().chip, 2);
  EXPECT_NE(error.problem().got.find("; also chip 3: stage 1, data 1, 500 B too much; also chip 1: stage 0, data 1, "
                                     "10 B too much; 4 of 4 chips in all"),
            std::string::npos)
      << error.problem().got;
  EXPECT_NE(error.problem().next.find("reduce train.batch to no less than 2"), std::string::npos);
}

TEST_F(ChipFitTest, ALimitBelowTheStateIsNotAnsweredByASmallerBatch) {
  small_.state_bytes = 600;
  const auto next = [&](int64_t limit) {
    return misfit_error(check_fit({&small_}, {.of_chips = {limit}}), ir::Mesh(), "here").problem().next;
  };
  EXPECT_NE(next(600).find("train.batch"), std::string::npos) << next(600);
  EXPECT_EQ(next(599).find("what stays between steps takes 600 B alone: split it (layout.zero"), 0U) << next(599);
}

TEST_F(ChipFitTest, AMisfitOnAChipComesBeforeOneOfTheMachine) {
  EXPECT_EQ(check_fit(plans_, {.of_chips = {0, 0, 0, 3999}, .machine_bytes = 1}).misfit, OomClass::compile);
}

TEST_F(ChipFitTest, LimitsThatDoNotMatchTheChipsAreOurMistake) {
  EXPECT_THROW(check_fit(plans_, {.of_chips = {1, 2}}), base::Error);
}

TEST(OomClassTest, IsFoundByItsName) {
  for (const OomClass cls : {OomClass::compile, OomClass::load, OomClass::runtime, OomClass::host})
    EXPECT_EQ(oom_class_named(oom_class_name(cls)), cls);
  EXPECT_THROW(oom_class_named("another"), base::Error);
}

}  // namespace
}  // namespace megacpp::memory
