// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/chip_fit.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::memory {
namespace {

constexpr size_t kShownPieces = 3;
constexpr size_t kShownChips = 3;

// A batch may shrink to one sequence for each chip that shares it.
std::string next_for_memory(const ir::Mesh& mesh) {
  int64_t sharing = 1;
  for (const ir::MeshAxis& axis : mesh.axes())
    if (axis.name.starts_with("data") || axis.name == "expert") sharing *= axis.size;
  const std::string least = sharing > 1 ? " to no less than " + std::to_string(sharing) : "";
  return "set train.recompute, reduce train.batch" + least + " (raise train.micro_steps), or reduce train.sequence";
}

// The worst stands under "where"; the next ones are named, the rest counted.
std::string others_text(const FitCheck& check, const ir::Mesh& mesh) {
  const auto count = static_cast<size_t>(check.overflowing());
  std::string text;
  for (size_t i = 1; i < std::min(count, kShownChips); ++i)
    text += fmt::format("; also {}, {} too much", ir::chip_name(check.chips[i].chip, mesh),
                        human_bytes(-check.chips[i].free_bytes()));
  return count > kShownChips ? text + fmt::format("; {} of {} chips in all", count, check.chips.size()) : text;
}

base::Problem machine_problem(const FitCheck& check) {
  const ChipFit& worst = check.chips.front();
  const size_t chips = check.chips.size();
  const std::string all = chips > 1 ? fmt::format(" and {} on all {} chips", check.total_bytes, chips) : "";
  return {.got = fmt::format("{} planned{}: {}", exact_bytes(worst.planned_bytes()), all, contents_text(*worst.plan)),
          .wanted = fmt::format("at most the {} available on this machine", exact_bytes(check.limits.machine_bytes))};
}

base::Problem chip_problem(const FitCheck& check, const ir::Mesh& mesh) {
  const ChipFit& worst = check.chips.front();
  return {.got = fmt::format("{} planned, {} too much: {}{}", exact_bytes(worst.planned_bytes()),
                             human_bytes(-worst.free_bytes()), contents_text(*worst.plan), others_text(check, mesh)),
          .wanted = fmt::format("at most the {} of this chip", exact_bytes(worst.limit_bytes))};
}

std::string host_contents_text(const HostFit& fit) {
  std::string text;
  if (fit.offloaded_bytes > 0)
    text = fmt::format("{} offloaded to pinned memory of the host", exact_bytes(fit.offloaded_bytes));
  if (fit.snapshot_bytes > 0)
    text += fmt::format("{}{} for the snapshot of checkpoints", text.empty() ? "" : ", and ",
                        exact_bytes(fit.snapshot_bytes));
  return text;
}

// Only what makes less of what is there.
std::string next_for_host(const HostFit& fit) {
  std::string ways;
  if (fit.offloaded_bytes > 0) ways += "set layout.offload: none, ";
  if (fit.activation_bytes > 0) ways += "offload fewer blocks (layout.offload_blocks), ";
  if (fit.state_bytes() > 0) ways += "split the state over more hosts (layout.zero with layout.data_parallel), ";
  if (fit.snapshot_bytes > 0) ways += "set checkpoint.every=-1 to save none, ";
  return ways + "or free memory there";
}

}  // namespace

std::string next_for_chip(const MemoryPlan& plan, int64_t limit, const ir::Mesh& mesh) {
  if (plan.state_bytes <= limit) return next_for_memory(mesh);
  return fmt::format(
      "what stays between steps takes {} alone: split it (layout.zero, layout.tensor_parallel, "
      "layout.pipeline_parallel), or raise the limit",
      human_bytes(plan.state_bytes));
}

std::string contents_text(const MemoryPlan& plan) {
  std::string text;
  for (const RoleBytes& part : bytes_by_role(plan))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ir::role_name(part.role), human_bytes(part.bytes));
  const size_t shown = std::min(kShownPieces, plan.largest.size());
  for (size_t i = 0; i < shown; ++i) {
    const Allocation& piece = plan.largest[i];
    text += fmt::format("{}{} {} @{}", i == 0 ? "; largest " : ", ", human_bytes(piece.bytes), piece.what, piece.scope);
  }
  return text;
}

int64_t FitCheck::overflowing() const {
  return std::count_if(chips.begin(), chips.end(), [](const ChipFit& fit) { return fit.overflows(); });
}

FitCheck check_fit(const std::vector<const MemoryPlan*>& plans, const Limits& limits) {
  MEGACPP_CHECK(!plans.empty()) << "a run has a chip";
  MEGACPP_CHECK(limits.of_chips.empty() || limits.of_chips.size() == plans.size())
      << limits.of_chips.size() << " limits for " << plans.size() << " chips";
  FitCheck check{.chips = {}, .limits = limits};
  const auto here = std::count_if(plans.begin(), plans.end(), [](const MemoryPlan* plan) { return plan != nullptr; });
  MEGACPP_CHECK(here > 0) << "a process has a chip";
  const int64_t share = limits.machine_bytes / here;
  for (size_t chip = 0; chip < plans.size(); ++chip) {
    if (plans[chip] == nullptr) continue;
    const int64_t own = limits.of_chips.empty() ? 0 : limits.of_chips[chip];
    check.chips.push_back({static_cast<int64_t>(chip), plans[chip], own > 0 ? own : share, own > 0});
    check.total_bytes += plans[chip]->total_bytes;
  }
  // A chip that overflows comes first even where another's share of the machine is smaller still.
  std::stable_sort(check.chips.begin(), check.chips.end(), [](const ChipFit& a, const ChipFit& b) {
    return std::pair(!a.overflows(), a.free_bytes()) < std::pair(!b.overflows(), b.free_bytes());
  });
  if (check.chips.front().overflows())
    check.misfit = OomClass::compile;
  else if (check.total_bytes > limits.machine_bytes)
    check.misfit = limits.shared_class;
  return check;
}

std::vector<RoleBytes> bytes_by_role(const MemoryPlan& plan) {
  std::map<ir::Role, int64_t> by_role;
  for (const Item& item : plan.items) by_role[item.role] += item.bytes;
  std::vector<RoleBytes> roles;
  for (const auto& [role, bytes] : by_role) roles.push_back({role, bytes});
  std::stable_sort(roles.begin(), roles.end(),
                   [](const RoleBytes& a, const RoleBytes& b) { return a.bytes > b.bytes; });
  return roles;
}

std::vector<OomPiece> pieces_of(const MemoryPlan& plan) {
  std::vector<OomPiece> pieces;
  for (const Allocation& piece : plan.largest) pieces.push_back({piece.bytes, piece.what, piece.scope, piece.role});
  return pieces;
}

std::string place_of(int64_t chip, const ir::Mesh& mesh, const std::string& host) {
  return ir::chip_name(chip, mesh) + " on host " + host;
}

OutOfMemory misfit_error(const FitCheck& check, const ir::Mesh& mesh, const std::string& host) {
  MEGACPP_CHECK(check.misfit.has_value()) << "everything fits";
  const ChipFit& worst = check.chips.front();
  const bool is_machine = !worst.overflows();
  base::Problem problem = is_machine ? machine_problem(check) : chip_problem(check, mesh);
  problem.where = place_of(worst.chip, mesh, host);
  problem.next = is_machine ? next_for_memory(mesh) : next_for_chip(*worst.plan, worst.limit_bytes, mesh);
  OomFacts facts{.cls = *check.misfit,
                 .phase = "planning",
                 .chip = worst.chip,
                 .place = problem.where,
                 .wanted = is_machine ? check.total_bytes : worst.planned_bytes(),
                 .limit = is_machine ? check.limits.machine_bytes : worst.limit_bytes,
                 .roles = bytes_by_role(*worst.plan),
                 .largest = pieces_of(*worst.plan)};
  return {base::Code::E2001, std::move(problem), std::move(facts)};
}

OutOfMemory host_misfit_error(const HostFit& fit, const std::string& where) {
  base::Problem problem{.where = where,
                        .got = host_contents_text(fit),
                        .wanted = fmt::format("at most the {} that it has free", exact_bytes(fit.limit_bytes)),
                        .next = next_for_host(fit)};
  OomFacts facts{.cls = OomClass::host,
                 .phase = "planning",
                 .chip = fit.chip,
                 .place = where,
                 .wanted = fit.needed_bytes(),
                 .limit = fit.limit_bytes};
  if (fit.state_bytes() > 0) facts.roles.push_back({ir::Role::optimizer, fit.state_bytes()});
  if (fit.activation_bytes > 0) facts.roles.push_back({ir::Role::activation, fit.activation_bytes});
  return {base::Code::E2001, std::move(problem), std::move(facts)};
}

}  // namespace megacpp::memory
