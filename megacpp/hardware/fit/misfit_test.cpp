// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/misfit.h"

#include <gtest/gtest.h>

#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/reserving.h"
#include "tests/support/text.h"

namespace megacpp::fit {
namespace {

using testing_support::has;

using base::Code;

// Four chips of a TPU, whose code is in the same memory; limits are by chip, 0: the hardware's own.
Estimate with_limits(const std::vector<int64_t>& limits, const std::string& precision = "f32") {
  const std::vector<std::string> settings = {"train.precision=" + precision,
                                             "layout.data_parallel=4",
                                             "train.batch=4",
                                             "train.sequence=64",
                                             "layout.zero=0",
                                             "train.recompute.A=none",
                                             "train.recompute.M=none",
                                             "train.recompute.E=none",
                                             "train.recompute.R=none"};
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings);
  const hw::Slice slice = hw::parse_target("v6e:2x2");
  testing_support::Reserving reserving{.code = 5'000'000};
  if (precision == "bf16") reserving = {.least = 0.8, .expected = 1.1, .most = 1.3, .code = 5'000'000};
  return make_estimate(
      recipe, {.slice = slice,
               .kernels = {.name = "any",
                           .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                           .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
               .reserve = testing_support::reserving(reserving),
               .limits = limits});
}

TEST(MisfitTest, ALimitBelowWhatStaysIsTheRecipesMistake) {
  const Estimate estimate = with_limits({0, int64_t{10} << 20, 0, 0});
  const ChipGroup& worst = estimate.fit.worst();
  const int64_t stays = estimate.worst_memory().state_bytes + worst.reservation.code;
  EXPECT_EQ(worst.chip, 1);
  EXPECT_EQ(worst.least_limit(), stays);
  const memory::OutOfMemory error = misfit_error(estimate);
  EXPECT_EQ(error.code(), Code::E1605);
  EXPECT_EQ(error.exit_status(), 2);
  const std::string needed = std::to_string(worst.needed());
  EXPECT_TRUE(has(error.problem().wanted, "a limit of at least " + needed + " bytes")) << error.what();
  EXPECT_TRUE(has(error.problem().wanted, "not 10485760 bytes")) << error.what();

  EXPECT_TRUE(with_limits({0, worst.needed(), 0, 0}).fit.may_fit()) << "the number that is wanted works";
  // Between the two it is another error: temporaries do not fit.
  EXPECT_EQ(misfit_code(with_limits({0, stays - 1, 0, 0}).fit.worst()), Code::E1605);
  EXPECT_EQ(misfit_code(with_limits({0, stays, 0, 0}).fit.worst()), Code::E2001);
}

TEST(MisfitTest, WhatACompilerIsExpectedToReserveStandsBesideWhatIsPlanned) {
  const ChipGroup roomy = with_limits({}, "bf16").fit.worst();
  EXPECT_TRUE(with_limits({0, roomy.reservation.least, 0, 0}, "bf16").fit.may_fit());
  const std::string got = misfit_error(with_limits({0, roomy.reservation.least - 1, 0, 0}, "bf16")).problem().got;
  EXPECT_TRUE(has(got, std::to_string(roomy.needed()) + " bytes")) << got;
  EXPECT_TRUE(has(got, memory::human_bytes(roomy.planned) +
                           " planned, for which the compiler is expected to reserve that much, " + "and no less than " +
                           memory::human_bytes(roomy.reservation.least)))
      << got;
}

TEST(MisfitTest, APlanThatIsTooLargeIsNamedWithItsBytes) {
  const int64_t needed = with_limits({}).fit.worst().needed();
  const Estimate estimate = with_limits({0, 0, needed - 1, 0});
  const memory::OutOfMemory error = misfit_error(estimate);
  EXPECT_EQ(error.code(), Code::E2001);
  EXPECT_EQ(error.exit_status(), 3);
  EXPECT_TRUE(has(error.problem().where, "chip 2: data 2 at (0, 1) on host 0 of v6e:2x2")) << error.what();
  EXPECT_TRUE(has(error.problem().got, std::to_string(needed) + " bytes")) << error.what();
  EXPECT_TRUE(has(error.problem().got, "1 of 4 chips do not fit")) << error.what();
  EXPECT_TRUE(has(error.problem().wanted, "at most the " + std::to_string(needed - 1) + " bytes")) << error.what();
  EXPECT_EQ(error.facts().chip, 2);
  EXPECT_EQ(error.facts().wanted, needed);
  EXPECT_EQ(error.facts().limit, needed - 1);
}

TEST(MisfitTest, OthersThatDoNotFitAreNamed) {
  const int64_t needed = with_limits({}).fit.worst().needed(), mib = int64_t{1} << 20;
  const std::string got =
      misfit_error(with_limits({needed - mib, needed - 3 * mib, needed - 2 * mib, 0})).problem().got;
  EXPECT_TRUE(has(got, "; also chip 2: data 2, 2.00 MiB too much; also chip 0: data 0, 1.00 MiB too much")) << got;
  EXPECT_TRUE(has(got, "; 3 of 4 chips do not fit")) << got;
  const std::string alike = misfit_error(with_limits({1, needed - mib, needed - mib, 0})).problem().got;
  EXPECT_TRUE(has(alike, "; also chip 1: data 1 and 1 alike, 1.00 MiB too much")) << alike;
}

TEST(MisfitTest, TheHardwaresOwnLimitIsNobodysMistake) {
  ChipGroup chip{.planned = 100,
                 .corrected = 100,
                 .reservation = {.least = 105, .expected = 105, .most = 105, .least_code = 5, .code = 5, .state = 90},
                 .limit = {.bytes = 50}};
  EXPECT_EQ(misfit_code(chip), Code::E2001);
  EXPECT_EQ(wanted_bytes(chip), "at most the " + memory::exact_bytes(50) + " of this chip");
  chip.limit.is_recipes = true;
  EXPECT_EQ(misfit_code(chip), Code::E1605);
  chip.limit.bytes = 95;
  EXPECT_EQ(misfit_code(chip), Code::E2001) << "what stays and the code have just enough";
}

TEST(MisfitTest, ASnapshotIsNamedWhereOneIsCounted) {
  ChipGroup chip{.limit = {.bytes = 0, .machine = SharedMachine{.bytes = 50, .needed = 100}}};
  EXPECT_TRUE(wanted_bytes(chip).ends_with("which need 100 B")) << wanted_bytes(chip);
  chip.limit.machine->snapshot = 10;
  EXPECT_TRUE(wanted_bytes(chip).ends_with("which need 100 B with the snapshot of checkpoints")) << wanted_bytes(chip);
}

TEST(MisfitTest, AHostIsNamedWhereItHasAName) {
  FitReport fit{.hardware = "h200:8", .host_snapshot = 70, .host_limit = 60, .host_chip = 4};
  EXPECT_EQ(host_misfit_error(fit).problem().where, "a host of h200:8");
  fit.host_name = "node7";
  const memory::OutOfMemory error = host_misfit_error(fit);
  EXPECT_EQ(error.problem().where, "host node7 of h200:8");
  EXPECT_EQ(error.facts().chip, 4);
}

TEST(MisfitTest, WhatAHostHoldsIsStateAndActivations) {
  const FitReport fit{.hardware = "h200:8", .host_offloaded = 70, .host_activations = 20, .host_limit = 60};
  const memory::OutOfMemory error = host_misfit_error(fit);
  ASSERT_EQ(error.facts().roles.size(), 2U);
  EXPECT_EQ(error.facts().roles[0].bytes, 50);
  EXPECT_EQ(error.facts().roles[1].bytes, 20);
}

}  // namespace
}  // namespace megacpp::fit
