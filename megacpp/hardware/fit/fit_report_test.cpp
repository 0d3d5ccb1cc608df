// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/fit_report.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/support/reserving.h"

namespace megacpp::fit {
namespace {

/// Two stages of two chips each, which need 100 and 60 bytes.
compile::Compiled two_stages() {
  compile::Compiled compiled;
  compiled.mesh = ir::Mesh({{"stage", 2}, {"data", 2}});
  compiled.stages.resize(2);
  compiled.stages[0].memory.total_bytes = 100;
  compiled.stages[0].memory.items = {{.role = ir::Role::weight, .letter = "A", .block = "block00", .bytes = 70},
                                     {.role = ir::Role::activation, .letter = "A", .block = "block00", .bytes = 20}};
  compiled.stages[0].memory.padding_bytes = 10;
  compiled.stages[1].memory.total_bytes = 60;
  return compiled;
}

hw::Slice four(hw::ChipKind kind, int64_t usable_bytes) {
  hw::Chip chip;
  chip.kind = kind;
  chip.usable_bytes = usable_bytes;
  chip.slices.host = {4};
  return {"toy:4", chip, {4, 1}};
}

std::vector<Reservation> reservations(const compile::Compiled& compiled, const testing_support::Reserving& parts) {
  std::vector<Reservation> all;
  for (const compile::StagePrograms& stage : compiled.stages)
    all.push_back(testing_support::reserved(stage.memory, parts));
  return all;
}

/// What is planned, to the byte.
std::vector<Reservation> exactly(const compile::Compiled& compiled) { return reservations(compiled, {}); }

FitReport exact_report(const compile::Compiled& compiled, const hw::Slice& slice, std::vector<int64_t> limits = {},
                       const PlanCorrection& correction = {}, const Hosts& hosts = {}) {
  return fit_report(compiled, slice, {.of_chips = std::move(limits)}, exactly(compiled), correction, hosts);
}

FitReport report_with(const testing_support::Reserving& parts, const hw::Slice& slice,
                      std::vector<int64_t> limits = {}) {
  return fit_report(two_stages(), slice, {.of_chips = std::move(limits)}, reservations(two_stages(), parts));
}

TEST(FitReportTest, ChipsOfAStageUnderOneLimitAreAGroup) {
  const FitReport report = exact_report(two_stages(), four(hw::ChipKind::gpu, 150), {0, 0, 0, 70});
  ASSERT_EQ(report.groups.size(), 3u);
  const ChipGroup &tight = report.groups[0], &first = report.groups[1], &second = report.groups[2];
  EXPECT_EQ(tight.chip, 3);
  EXPECT_EQ(tight.stage, 1u);
  EXPECT_TRUE(tight.limit.is_recipes);
  EXPECT_EQ(tight.free_bytes(), 10) << "least free memory first, though others need more";
  EXPECT_EQ(tight.place, "chip 3: stage 1, data 1");
  EXPECT_EQ(tight.where, "(3, 0) on host 0");
  EXPECT_EQ(first.chip, 0);
  EXPECT_EQ(first.chips, 2);
  EXPECT_EQ(first.free_bytes(), 50);
  EXPECT_EQ(second.chip, 2);
  EXPECT_EQ(second.chips, 1);
  EXPECT_EQ(second.free_bytes(), 90);
  EXPECT_EQ(report.mean, (100 + 100 + 60 + 60) / 4);
  EXPECT_TRUE(report.fits());
  EXPECT_FALSE(exact_report(two_stages(), four(hw::ChipKind::gpu, 150), {0, 99, 0, 0}).fits()) << "one is enough";
}

TEST(FitReportTest, TheVerdictComesFromTheRangeOfWhatIsNeeded) {
  const auto report_in = [](int64_t usable_bytes, double most) {
    return report_with({.least = 0.75, .most = most, .code = 5}, four(hw::ChipKind::tpu, usable_bytes));
  };
  const auto verdict_in = [&](int64_t usable_bytes, double most) { return report_in(usable_bytes, most).verdict(); };
  // 75 bytes and 5 of code at least; 160 and 5 at most.
  EXPECT_EQ(verdict_in(79, 1.6), FitVerdict::does_not_fit);
  EXPECT_EQ(verdict_in(80, 1.6), FitVerdict::close);
  EXPECT_EQ(verdict_in(164, 1.6), FitVerdict::close);
  EXPECT_EQ(verdict_in(165, 1.6), FitVerdict::fits);
  EXPECT_EQ(verdict_in(105, 1), FitVerdict::fits);
  EXPECT_EQ(verdict_in(104, 1), FitVerdict::close) << "since 105 are expected";
  EXPECT_EQ(fit_verdict_name(FitVerdict::does_not_fit), "does not fit");
  EXPECT_EQ(needed_text(report_in(200, 1.6).worst()), "105 B (80 B to 165 B)");
  const ChipGroup close = report_in(100, 1.6).worst();
  EXPECT_EQ(close.free_bytes(), -5) << "by what is expected";
  EXPECT_EQ(report_in(200, 1.6).mean, (105 + 65) / 2);
}

TEST(FitReportTest, WithoutARangeWhatIsPlannedIsNeededToTheByte) {
  const FitReport report = exact_report(two_stages(), four(hw::ChipKind::gpu, 150));
  EXPECT_EQ(needed_text(report.worst()), "100 B");
  EXPECT_FALSE(report.worst().reservation.is_range());
}

TEST(FitReportTest, APoolIsAPartOfTheChipAndNoLimitOfARecipeMakesItLarger) {
  const auto limit_of = [](std::vector<int64_t> own) {
    return fit_report(two_stages(), four(hw::ChipKind::gpu, 200), {.of_chips = std::move(own), .pool_share = 0.75},
                      exactly(two_stages()))
        .worst()
        .limit;
  };
  EXPECT_EQ(limit_of({}).bytes, 150);
  EXPECT_EQ(limit_of({149, 149, 149, 149}).bytes, 149);
  EXPECT_TRUE(limit_of({149, 149, 149, 149}).is_recipes);
  EXPECT_EQ(limit_of({151, 151, 151, 151}).bytes, 150);
}

// The chip that has least decides, whichever it is.
TEST(FitReportTest, OneChipThatIsCloseMakesThePlanClose) {
  const hw::Slice slice = four(hw::ChipKind::gpu, 1000);
  EXPECT_EQ(report_with({.most = 1.6}, slice).verdict(), FitVerdict::fits);
  const FitReport report = report_with({.most = 1.6}, slice, {0, 0, 0, 70});
  EXPECT_EQ(report.verdict(), FitVerdict::close);
  EXPECT_FALSE(report.fits());
  EXPECT_TRUE(report.may_fit());
}

// Chips of the first stage need 100 to 160 bytes, those of the second 60 to 96.
TEST(FitReportTest, TheChipThatMakesAPlanCloseComesBeforeOneWithLessFreeMemoryThatFits) {
  const FitReport report = report_with({.most = 1.6}, four(hw::ChipKind::gpu, 1000), {150, 150, 100, 100});
  ASSERT_EQ(report.groups.size(), 2u);
  EXPECT_EQ(report.verdict(), FitVerdict::close);
  EXPECT_EQ(report.worst().verdict(), FitVerdict::close);
  EXPECT_EQ(report.worst().chip, 0);
  EXPECT_EQ(report.groups[1].verdict(), FitVerdict::fits);
  EXPECT_LT(report.groups[1].free_bytes(), report.worst().free_bytes());
}

TEST(FitReportTest, TheLastByteMayBeUsed) {
  EXPECT_TRUE(exact_report(two_stages(), four(hw::ChipKind::gpu, 100), {}).fits());
  EXPECT_FALSE(exact_report(two_stages(), four(hw::ChipKind::gpu, 99), {}).fits());
}

TEST(FitReportTest, CorrectionsAreByRole) {
  const catalog::Correction correction{
      .method = catalog::Method::parts, .factors = {{"activation", 2.0}}, .samples = 7};
  const FitReport report = exact_report(two_stages(), four(hw::ChipKind::gpu, 150), {}, {.of_parts = correction});
  EXPECT_EQ(report.worst().planned, 100);
  EXPECT_EQ(report.worst().corrected, 70 + 2 * 20 + 10);
  EXPECT_EQ(report.samples, 7u);
}

TEST(FitReportTest, TemporariesAreCorrectedByFamily) {
  memory::MemoryPlan plan;
  plan.items = {{.role = ir::Role::activation, .letter = "A", .block = "block00", .bytes = 1},
                {.role = ir::Role::activation, .letter = "E", .block = "block01", .bytes = 2},
                {.role = ir::Role::temporary, .letter = "", .block = "head", .bytes = 4},
                {.role = ir::Role::temporary, .letter = "E", .block = "block01", .bytes = 5},
                {.role = ir::Role::temporary, .letter = "D", .block = "block02", .bytes = 3}};
  recipe::Model model;
  model.letters['D'] = {.family = "E", .settings = {}};
  std::map<std::string, double> parts;
  for (const auto& [name, value] : parts_of(plan, letter_families(model))) parts[name] = value;
  EXPECT_EQ(parts, (std::map<std::string, double>{
                       {"activation", 3}, {"temporary outside blocks", 4}, {"temporary of E", 8}, {"padding", 0}}));
}

// 400 bytes in all, of which 320 are needed: whoever is asked has 80 left.
TEST(FitReportTest, ChipsOfThisMachineShareItsMemory) {
  const FitReport report = exact_report(two_stages(), four(hw::ChipKind::host, 100), {});
  ASSERT_EQ(report.groups.size(), 2u);
  EXPECT_EQ(report.groups[0].stage, 0u) << "as little free memory as the other, and needs more";
  EXPECT_EQ(report.groups[0].limit.bytes, 400 - (320 - 100));
  EXPECT_EQ(report.groups[0].free_bytes(), 80);
  EXPECT_EQ(report.groups[1].free_bytes(), 80);
  EXPECT_TRUE(exact_report(two_stages(), four(hw::ChipKind::host, 80), {}).fits()) << "320: the last byte";
  EXPECT_FALSE(exact_report(two_stages(), four(hw::ChipKind::host, 79), {}).fits());

  const FitReport crowded = exact_report(two_stages(), four(hw::ChipKind::host, 10), {});
  EXPECT_EQ(crowded.worst().limit.bytes, 0) << "the others leave nothing";
  EXPECT_EQ(crowded.worst().free_bytes(), 40 - 320);

  const FitReport limited = exact_report(two_stages(), four(hw::ChipKind::host, 100), {0, 0, 0, 61});
  EXPECT_EQ(limited.worst().chip, 3);
  EXPECT_EQ(limited.worst().free_bytes(), 1) << "its own limit, whatever the others leave";
}

// Two machines of 200 bytes: one holds both chips of the first stage, the other those of the second.
TEST(FitReportTest, ChipsShareTheMachineTheyAreOn) {
  hw::Slice slice = four(hw::ChipKind::host, 100);
  slice.chip.slices.host = {2};
  const FitReport report = exact_report(two_stages(), slice, {});
  ASSERT_EQ(report.groups.size(), 2u);
  EXPECT_EQ(report.groups[0].free_bytes(), 200 - 2 * 100);
  EXPECT_EQ(report.groups[1].free_bytes(), 200 - 2 * 60);
}

// A weight of 16 bytes that both stages hold, and 24 bytes of optimizer state.
TEST(FitReportTest, TheSnapshotOfCheckpointsIsInTheMemoryOfTheMachine) {
  compile::Compiled compiled = two_stages();
  const auto tensor = [](const char* name, int64_t elements, bool kept) {
    return compile::StateTensor{.name = name, .whole = {ir::DType::f32, {elements}}, .kept = kept};
  };
  compiled.stages[0].state = {tensor("batch.ids", 100, false), tensor("embedding", 4, true)};
  compiled.stages[1].state = {tensor("adam_m.embedding", 6, true), tensor("embedding", 4, true)};
  const FitReport report = exact_report(compiled, four(hw::ChipKind::host, 100), {});
  EXPECT_EQ(report.snapshot, 16 + 24);
  EXPECT_EQ(report.worst().free_bytes(), 400 - 320 - 40);
  EXPECT_EQ(report.worst().limit.bytes, 400 - (320 - 100) - 40);
  EXPECT_TRUE(exact_report(compiled, four(hw::ChipKind::host, 90), {}).fits()) << "360: the last byte";
  EXPECT_FALSE(exact_report(compiled, four(hw::ChipKind::host, 89), {}).fits());

  hw::Slice two_machines = four(hw::ChipKind::host, 110);
  two_machines.chip.slices.host = {2};
  EXPECT_EQ(exact_report(compiled, two_machines, {}).worst().free_bytes(), 220 - 2 * 100 - 16) << "its stage's part";

  const FitReport elsewhere = exact_report(compiled, four(hw::ChipKind::gpu, 100), {});
  EXPECT_EQ(elsewhere.snapshot, 40);
  EXPECT_EQ(elsewhere.worst().free_bytes(), 0) << "the host's memory is not the chip's";

  const FitReport unsaved = exact_report(compiled, four(hw::ChipKind::host, 80), {}, {}, {.keep_snapshot = false});
  EXPECT_EQ(unsaved.snapshot, 0);
  EXPECT_TRUE(unsaved.fits()) << "320: what is not taken is not counted";
  EXPECT_EQ(unsaved.worst().limit.machine->snapshot, 0);
  EXPECT_EQ(report.worst().limit.machine->snapshot, 40);
}

/// With so many bytes each, and neighbouring chips.
Hosts hosts_with(const std::vector<int64_t>& bytes) {
  Hosts hosts;
  for (const int64_t each : bytes)
    hosts.all.push_back({.name = "node" + std::to_string(hosts.all.size()), .bytes = each});
  hosts.of_chips = [count = std::ssize(bytes)](const ir::Mesh& mesh) {
    std::vector<int64_t> of_chips;
    for (int64_t chip = 0; chip < mesh.chips(); ++chip) of_chips.push_back(chip * count / mesh.chips());
    return of_chips;
  };
  return hosts;
}

// 40 bytes of a snapshot, and 7 of each chip's, of which 2 are activations.
compile::Compiled with_offloaded_state() {
  compile::Compiled compiled = two_stages();
  compiled.stages[0].state = {compile::StateTensor{.name = "embedding", .whole = {ir::DType::f32, {6}}, .kept = true}};
  compiled.stages[1].state = {compile::StateTensor{.name = "head", .whole = {ir::DType::f32, {4}}, .kept = true}};
  for (compile::StagePrograms& stage : compiled.stages)
    stage.memory.away[ir::Tier::host] = {.bytes = 7, .activation_bytes = 2};
  return compiled;
}

FitReport beside(const Hosts& hosts, hw::ChipKind kind = hw::ChipKind::gpu) {
  return exact_report(with_offloaded_state(), four(kind, 100), {}, {}, hosts);
}

TEST(FitReportTest, AHostBesideItsChipsHasOffloadedStateAndTheSnapshot) {
  const FitReport fits = beside(hosts_with({68}));
  EXPECT_EQ(fits.host_offloaded, 28);
  EXPECT_EQ(fits.host_activations, 8);
  EXPECT_EQ(fits.host_snapshot, 40);
  EXPECT_TRUE(fits.fits()) << "the last byte";
  EXPECT_FALSE(beside(hosts_with({67})).fits()) << "both are in one memory";
  Hosts unsaved = hosts_with({28});
  unsaved.keep_snapshot = false;
  EXPECT_TRUE(beside(unsaved).fits());
  const FitReport unknown = beside({});
  EXPECT_TRUE(unknown.fits()) << "no limit is known";
  EXPECT_EQ(unknown.host_needed(), 68) << "of the slice's one host";
  EXPECT_EQ(unknown.host_name, "");

  const FitReport shared = beside(hosts_with({1}), hw::ChipKind::host);
  EXPECT_EQ(shared.host_needed(), 0) << "counted with the chips";
  EXPECT_TRUE(shared.fits());
}

// Of two hosts the first has the stage with the embedding, 14 + 24 bytes, the second 14 + 16.
TEST(FitReportTest, EachHostIsHeldAgainstWhatItHasItself) {
  const FitReport fits = beside(hosts_with({38, 30}));
  EXPECT_TRUE(fits.fits()) << "the last byte of both";
  const FitReport first = beside(hosts_with({37, 1000}));
  EXPECT_FALSE(first.fits());
  EXPECT_EQ(first.host_name, "node0");
  EXPECT_EQ(first.host_snapshot, 24);
  EXPECT_EQ(first.host_limit, 37);
  EXPECT_EQ(first.host_chip, 0);
  const FitReport second = beside(hosts_with({38, 29}));
  EXPECT_FALSE(second.fits());
  EXPECT_EQ(second.host_name, "node1") << "though it needs less";
  EXPECT_EQ(second.host_needed(), 14 + 16);
  EXPECT_EQ(second.host_chip, 2);
}

// Three chips on one host, and one on the other.
TEST(FitReportTest, HostsMayHaveDifferentNumbersOfChips) {
  Hosts hosts = hosts_with({53, 15});
  hosts.of_chips = [](const ir::Mesh&) { return std::vector<int64_t>{0, 0, 0, 1}; };
  EXPECT_TRUE(beside(hosts).fits()) << "21 + 24 + 8, and 7 + 8";
  hosts.all[0].bytes = 52;
  EXPECT_FALSE(beside(hosts).fits());
}

TEST(FitReportTest, WithoutAKnownLimitEverythingFitsAndNothingIsSaid) {
  const FitReport report = exact_report(two_stages(), four(hw::ChipKind::gpu, 0), {0, 0, 0, 70});
  EXPECT_EQ(report.groups[0].limit.bytes, 70) << "the recipe's own";
  EXPECT_EQ(report.groups[1].limit.bytes, std::nullopt);
  EXPECT_EQ(report.groups[1].free_bytes(), std::nullopt);
  EXPECT_TRUE(report.groups[1].fits());
}

}  // namespace
}  // namespace megacpp::fit
