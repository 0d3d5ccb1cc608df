// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/candidates.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/tensor_split.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr int64_t kLeastRun = 256;  // tokens; shorter runs wait for each other more than they compute

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= number; ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

/// Micro-steps that keep the global batch, every chip with the same number of sequences; where it cannot be shared out
/// evenly, one micro-step.
std::vector<int64_t> micro_steps_for(int64_t global_batch, int64_t sharing) {
  std::vector<int64_t> found;
  for (const int64_t steps : divisors(global_batch))
    if (global_batch / steps % sharing == 0) found.push_back(steps);
  if (found.empty() && global_batch >= sharing) found.push_back(1);
  return found;
}

/// Levels that differ: without copies nothing is there to split, and gradients of one micro-step are reduced at once.
std::vector<int64_t> zero_levels(int64_t copies, int64_t micro_steps) {
  if (copies == 1) return {1};
  return micro_steps == 1 ? std::vector<int64_t>{0, 1, 3} : std::vector<int64_t>{0, 1, 2, 3};
}

class Enumerator {
 public:
  Enumerator(const Recipe& recipe, int64_t chips, const recipe::FindUnsupported& cannot_run)
      : recipe_(recipe), chips_(chips), cannot_run_(cannot_run) {
    int64_t common = 0;  // a degree must divide the experts of every type of block
    for (const int64_t experts : recipe::expert_counts(recipe.model)) common = std::gcd(common, experts);
    experts_ = std::max<int64_t>(1, common);
  }

  Candidates run(SplitSequences split) {
    for (const int64_t tensor : divisors(chips_)) {
      for (const int64_t pipeline : divisors(chips_ / tensor)) {
        for (const int64_t context : divisors(chips_ / tensor / pipeline)) {
          for (const int64_t expert : divisors(chips_ / tensor / pipeline / context)) {
            LayoutChoice degrees{.data = chips_ / tensor / pipeline / context / expert,
                                 .expert = expert,
                                 .context = context,
                                 .tensor = tensor,
                                 .pipeline = pipeline};
            ++found_.considered;
            if (const std::string why = cheap_refusal(degrees, split); !why.empty()) {
              found_.drop(why);
            } else {
              add_variants(degrees);
            }
          }
        }
      }
    }
    return std::move(found_);
  }

 private:
  std::string unsupported(const LayoutChoice& d) const {
    if (!cannot_run_) return {};
    Recipe candidate = recipe_;
    candidate.layout.data_parallel = d.data, candidate.layout.expert_parallel = d.expert;
    candidate.layout.context_parallel = d.context, candidate.layout.tensor_parallel = d.tensor;
    candidate.layout.pipeline_parallel = d.pipeline;
    const std::optional<recipe::Unsupported> found = cannot_run_(candidate);
    return found ? "the backend cannot run it: " + found->reason : "";
  }

  // What the gates would say as well, without their search for a way out.
  std::string cheap_refusal(const LayoutChoice& d, SplitSequences split) const {
    if (const std::string why = unsupported(d); !why.empty()) return why;
    if (d.context > 1 && split == SplitSequences::no)
      return fmt::format("context_parallel above 1, not tried below {} tokens of a sequence", kLongSequence);
    if (d.context > recipe_.layout.context_parallel && recipe_.train.sequence / d.context < kLeastRun)
      return fmt::format("fewer than {} tokens of a sequence on a chip", kLeastRun);
    if (d.expert > 1 && !recipe::has_experts(recipe_.model))
      return "expert_parallel above 1, and the model has no experts";
    if (experts_ % d.expert != 0) return fmt::format("expert_parallel that does not divide {} experts", experts_);
    if (recipe_.train.batch * recipe_.train.micro_steps < d.data * d.expert)
      return "fewer sequences in the global batch than chips that share it";
    if (d.pipeline * recipe_.layout.virtual_stages > recipe_.model.depth) return "more stages than blocks";
    recipe::Layout layout = recipe_.layout;
    layout.tensor_parallel = d.tensor;
    if (!plan::tensor_parallel_fits(recipe_.model, layout)) return "heads or groups do not divide by tensor_parallel";
    return {};
  }

  // Micro-steps change no gate.
  void add_variants(LayoutChoice choice) {
    const int64_t global_batch = recipe_.train.batch * recipe_.train.micro_steps;
    const std::vector<int64_t> micro_steps = micro_steps_for(global_batch, choice.data * choice.expert);
    choice.micro_steps = micro_steps.front();
    choice.batch = global_batch / choice.micro_steps;
    if (const auto refused = plan::refusal(with_changes(recipe_, changes_for(recipe_, choice)))) {
      found_.drop(fmt::format("{}: {}", refused->problem.where, base::code_title(refused->code)));
      return;
    }
    const int64_t copies = choice.data * choice.expert * choice.context;
    for (const int64_t zero : {0, 1, 2, 3}) {
      if (zero == 3 && recipe_.layout.policy == recipe::Policy::megatron) continue;
      for (const int64_t steps : micro_steps) {
        const std::vector<int64_t> levels = zero_levels(copies, steps);
        if (std::find(levels.begin(), levels.end(), zero) == levels.end()) continue;
        choice.zero = zero;
        choice.micro_steps = steps;
        choice.batch = global_batch / steps;
        found_.legal.push_back(choice);
      }
    }
  }

  const Recipe& recipe_;
  int64_t chips_;
  const recipe::FindUnsupported& cannot_run_;
  int64_t experts_ = 1;
  Candidates found_;
};

}  // namespace

void Candidates::drop(const std::string& reason, int64_t layouts) {
  const auto at = std::ranges::lower_bound(dropped, reason, std::less<>(), &Dropped::reason);
  if (at != dropped.end() && at->reason == reason) {
    at->layouts += layouts;
  } else {
    dropped.insert(at, {reason, layouts});
  }
}

Candidates legal_layouts(const Recipe& recipe, int64_t chips, SplitSequences split,
                         const recipe::FindUnsupported& cannot_run) {
  return Enumerator(recipe, chips, cannot_run).run(split);
}

plan::Changes changes_for(const Recipe& recipe, const LayoutChoice& choice) {
  plan::Changes changes;
  const auto set = [&](const std::string& key, const std::string& value) {
    if (recipe::value_text(recipe::member_of(*recipe::find_key(key), recipe)) != value) changes.push_back({key, value});
  };
  const int64_t chips = choice.data * choice.expert * choice.context * choice.tensor * choice.pipeline;
  if (recipe.layout.chips > 0) set("layout.chips", std::to_string(chips));
  set("layout.data_parallel", std::to_string(choice.data));
  set("layout.expert_parallel", std::to_string(choice.expert));
  set("layout.context_parallel", std::to_string(choice.context));
  set("layout.tensor_parallel", std::to_string(choice.tensor));
  set("layout.pipeline_parallel", std::to_string(choice.pipeline));
  set("layout.zero", std::to_string(choice.zero));
  set("train.batch", std::to_string(choice.batch));
  set("train.micro_steps", std::to_string(choice.micro_steps));
  if (!choice.recompute) return changes;
  for (const char letter : recipe::recompute_letters(recipe.model))
    if (recipe::recompute_level(recipe, letter) != choice.recompute)
      changes.push_back({recipe::recompute_key(letter), std::string(base::text_of(*choice.recompute))});
  return changes;
}

}  // namespace megacpp::fit
