// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/composition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::plan {
namespace {

std::string joined_or_none(const std::vector<std::string>& parts, const char* separator) {
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, separator));
}

std::string stage_cut(const Plan& plan) {
  if (plan.stages == 1) return "none";
  return fmt::format("{} stages x {} chunks, cut {}, schedule {}", plan.stages, plan.layout->virtual_stages,
                     !plan.cuts.empty() ? "where the pattern says" : "by estimated cost",
                     base::text_of(plan.layout->schedule));
}

std::string tensor_parallel(const Plan& plan) {
  const recipe::Layout& layout = plan.layout.keys();
  std::vector<std::string> parts;
  if (layout.tensor_parallel > 1)
    parts.push_back(fmt::format("heads, inner widths and vocabulary over {} chips", layout.tensor_parallel));
  if (layout.sequence_parallel) parts.push_back("tokens between mixers over the same chips");
  if (layout.context_parallel > 1)
    parts.push_back(fmt::format("sequences over {} chips, attention by {}{}", layout.context_parallel,
                                base::text_of(layout.context_attention),
                                layout.load_balance ? ", early and late runs paired" : ""));
  return joined_or_none(parts, "; ");
}

std::string recompute(const Plan& plan) {
  std::vector<std::string> parts;
  for (const char letter : recipe::recompute_letters(plan.model))
    if (const recipe::RecomputeLevel level = plan.training.recompute.at(letter); !recipe::keeps_everything(level))
      parts.push_back(fmt::format("{} {}", letter, base::text_of(level)));
  return joined_or_none(parts, ", ");
}

std::string compilation(const Plan& plan) {
  if (plan.chips == 1) return "one program for one chip";
  return fmt::format("one program, partitioned for each of {} chips", plan.chips);
}

std::string zero(const Plan& plan) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  constexpr const char* kWhat[] = {"", "optimizer state", "gradients and optimizer state",
                                   "weights, gradients and optimizer state"};
  std::vector<std::string> parts;
  if (!plan.copies.empty()) parts.push_back("over " + to_string(plan.copies, mesh));
  if (!plan.expert_copies.empty() && plan.expert_copies != plan.copies)
    parts.push_back("of experts over " + to_string(plan.expert_copies, mesh));
  if (plan.layout.zero() == 0 || parts.empty()) return "none";
  return fmt::format("{} {}", kWhat[plan.layout.zero()], fmt::join(parts, ", "));
}

std::string expert_parallel(const Plan& plan) {
  if (plan.layout->expert_parallel == 1) return "none";
  std::set<int64_t> counts;
  for (const int64_t experts : recipe::expert_counts(plan.model)) counts.insert(experts);
  return fmt::format("{} experts over {} chips, tokens travel by {}", fmt::join(counts, " and "),
                     plan.layout->expert_parallel, base::text_of(plan.layout->dispatcher));
}

std::string optimizer(const Plan& plan) {
  std::string text(optim::optimizer_def(plan.optimizer.name).title);
  if (plan.optimizer.clip > 0) text += fmt::format(", clipped at norm {}", plan.optimizer.clip);
  if (plan.adds_micro_steps) text += fmt::format(", every {} micro-steps", plan.training.micro_steps);
  return text;
}

}  // namespace

std::vector<CompositionStep> composition(const Plan& plan) {
  return {{"stage cut", stage_cut(plan)}, {"tensor parallel", tensor_parallel(plan)},
          {"recompute", recompute(plan)}, {"compile", compilation(plan)},
          {"ZeRO", zero(plan)},           {"expert parallel", expert_parallel(plan)},
          {"optimizer", optimizer(plan)}};
}

}  // namespace megacpp::plan
