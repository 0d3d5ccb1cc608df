// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/composition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::plan {
namespace {

using recipe::Recipe;

std::string joined_or_none(const std::vector<std::string>& parts, const char* separator) {
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, separator));
}

std::string stage_cut(const Plan& plan, const Recipe& recipe) {
  if (plan.stages == 1) return "none";
  const bool is_given = !recipe::expand(recipe.model).cuts.empty();
  return fmt::format("{} stages x {} chunks, cut {}, schedule {}", plan.stages, plan.layout->virtual_stages,
                     is_given ? "where the pattern says" : "by estimated cost", base::text_of(plan.layout->schedule));
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

std::string recompute(const Recipe& recipe) {
  std::vector<std::string> parts;
  for (const char letter : recipe::recompute_letters(recipe.model))
    if (const recipe::RecomputeLevel level = recipe::recompute_level(recipe, letter); !recipe::keeps_everything(level))
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

std::string expert_parallel(const Plan& plan, const Recipe& recipe) {
  if (plan.layout->expert_parallel == 1) return "none";
  std::set<int64_t> counts;
  for (const int64_t experts : recipe::expert_counts(recipe.model)) counts.insert(experts);
  return fmt::format("{} experts over {} chips, tokens travel by {}", fmt::join(counts, " and "),
                     plan.layout->expert_parallel, base::text_of(plan.layout->dispatcher));
}

std::string optimizer(const Recipe& recipe) {
  std::string text(optim::optimizer_def(recipe.optimizer.name).title);
  if (recipe.optimizer.clip > 0) text += fmt::format(", clipped at norm {}", recipe.optimizer.clip);
  if (recipe.train.micro_steps > 1) text += fmt::format(", every {} micro-steps", recipe.train.micro_steps);
  return text;
}

}  // namespace

std::vector<CompositionStep> composition(const Plan& plan, const Recipe& recipe) {
  return {{"stage cut", stage_cut(plan, recipe)},
          {"tensor parallel", tensor_parallel(plan)},
          {"recompute", recompute(recipe)},
          {"compile", compilation(plan)},
          {"ZeRO", zero(plan)},
          {"expert parallel", expert_parallel(plan, recipe)},
          {"optimizer", optimizer(recipe)}};
}

}  // namespace megacpp::plan
