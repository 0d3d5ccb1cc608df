// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/misfit.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using memory::human_bytes;

constexpr size_t kShownGroups = 3;

int64_t overflowing(const FitReport& report) {
  int64_t chips = 0;
  for (const ChipGroup& group : report.groups)
    if (!group.may_fit()) chips += group.chips;
  return chips;
}

// The worst stands under "where"; the next ones are named, with those that are alike, and all are counted.
std::string others_text(const FitReport& report, int64_t chips) {
  std::string text;
  for (size_t g = 0; g < std::min(report.groups.size(), kShownGroups) && !report.groups[g].may_fit(); ++g) {
    const ChipGroup& group = report.groups[g];
    const std::string alike = group.chips > 1 ? fmt::format(" and {} alike", group.chips - 1) : "";
    if (g > 0) text += fmt::format("; also {}{}, {} too much", group.place, alike, human_bytes(-*group.free_bytes()));
  }
  return text + fmt::format("; {} of {} chips do not fit", overflowing(report), chips);
}

// "1.5 GiB planned, 1.6 GiB by what the catalog learnt, 0.4 GiB of code", "1.5 GiB planned, for which XLA is expected
// to reserve that much, and no less than 1.7 GiB"
std::string parts_text(const ChipGroup& chip) {
  std::string text = human_bytes(chip.planned) + " planned";
  if (chip.corrected != chip.planned) text += ", " + human_bytes(chip.corrected) + " by what the catalog has learnt";
  const Reservation& reservation = chip.reservation;
  const int64_t beside_code = reservation.expected - reservation.code;
  if (beside_code != chip.corrected) text += ", for which the compiler is expected to reserve that much";
  if (beside_code == chip.corrected && reservation.code > 0)
    text += ", and " + human_bytes(reservation.code) + " of code";
  if (reservation.is_range()) text += ", and no less than " + human_bytes(reservation.least);
  return text;
}

std::string joined_by_or(const std::vector<std::string>& ways) {
  std::string text;
  for (size_t i = 0; i < ways.size(); ++i) text += (i == 0 ? "" : i + 1 == ways.size() ? " or " : ", ") + ways[i];
  return text;
}

// Only what this recipe still can do: a batch of one sequence for each chip that shares it gets no smaller.
std::string next_for(const Estimate& estimate, const memory::MemoryPlan& plan, int64_t limit) {
  if (plan.state_bytes > limit) return memory::next_for_chip(plan, limit, estimate.compiled.mesh);
  const recipe::Layout& layout = estimate.plan().layout.keys();
  const int64_t sharing = layout.data_parallel * layout.expert_parallel;
  std::vector<std::string> ways;
  if (!recipe::all_recompute_at(estimate.recipe(), recipe::RecomputeLevel::full))
    ways.push_back("recompute more (train.recompute)");
  if (estimate.plan().layout.zero() < 3 && !estimate.plan().copies.empty())
    ways.push_back(fmt::format("raise layout.zero above {}", estimate.plan().layout.zero()));
  if (estimate.recipe().train.batch > sharing)
    ways.push_back(fmt::format("reduce train.batch to no less than {} (raise train.micro_steps)", sharing));
  ways.push_back("split the model more (layout.tensor_parallel, layout.pipeline_parallel)");
  ways.push_back("reduce train.sequence");
  return joined_by_or(ways);
}

}  // namespace

base::Code misfit_code(const ChipGroup& worst) {
  return worst.limit_is_wrong() ? base::Code::E1605 : base::Code::E2001;
}

std::string wanted_bytes(const ChipGroup& worst) {
  if (const auto& machine = worst.limit.machine)
    return fmt::format("at most the {} of this machine for all its chips, which need {}{}",
                       memory::exact_bytes(machine->bytes), human_bytes(machine->needed),
                       machine->snapshot > 0 ? " with the snapshot of checkpoints" : "");
  const int64_t limit = worst.limit.bytes.value();
  if (!worst.limit_is_wrong()) return fmt::format("at most the {} of this chip", memory::exact_bytes(limit));
  return fmt::format("a limit of at least {}, with which it runs as planned ({} stay from step to step{}), not {}",
                     memory::exact_bytes(worst.needed()), human_bytes(worst.least_limit()),
                     worst.reservation.code > 0 ? " with the code" : "", memory::exact_bytes(limit));
}

memory::OutOfMemory host_misfit_error(const FitReport& fit) {
  return memory::host_misfit_error(
      {.offloaded_bytes = fit.host_offloaded,
       .activation_bytes = fit.host_activations,
       .snapshot_bytes = fit.host_snapshot,
       .limit_bytes = fit.host_limit.value_or(0),
       .chip = fit.host_chip},
      (fit.host_name.empty() ? "a host" : "host " + fit.host_name) + " of " + fit.hardware);
}

memory::OutOfMemory misfit_error(const Estimate& estimate) {
  MEGACPP_CHECK(!estimate.fit.may_fit()) << "everything fits";
  const ChipGroup& worst = estimate.fit.worst();
  if (worst.may_fit()) return host_misfit_error(estimate.fit);
  const memory::MemoryPlan& plan = estimate.worst_memory();
  const std::string place = worst.place + " at " + worst.where;
  base::Problem problem{
      .where = fmt::format("{} of {}, running {}", place, estimate.fit.hardware, subject_text(estimate.recipe())),
      .got = fmt::format("{} needed, {} too much ({}): {}{}", memory::exact_bytes(worst.needed()),
                         human_bytes(-*worst.free_bytes()), parts_text(worst), memory::contents_text(plan),
                         others_text(estimate.fit, estimate.compiled.mesh.chips())),
      .wanted = wanted_bytes(worst),
      .next = next_for(estimate, plan, *worst.limit.bytes - worst.reservation.least_code)};
  memory::OomFacts facts{.cls = worst.limit.machine ? memory::OomClass::host : memory::OomClass::compile,
                         .phase = kPlanningPhase,
                         .chip = worst.chip,
                         .place = place,
                         .wanted = worst.needed(),
                         .limit = worst.limit.bytes,
                         .roles = memory::bytes_by_role(plan),
                         .largest = memory::pieces_of(plan)};
  return {misfit_code(worst), std::move(problem), std::move(facts)};
}

}  // namespace megacpp::fit
