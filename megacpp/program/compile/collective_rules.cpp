// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/collective_rules.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/spread.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::compile {
namespace {

using Facts = CollectiveFacts;
using Moves = ops::Transfer::Kind;

bool over(const Facts& facts, std::string_view axis) {
  return std::find(facts.axes.begin(), facts.axes.end(), axis) != facts.axes.end();
}

bool only_over(const Facts& facts, std::string_view axis) { return facts.axes.size() == 1 && over(facts, axis); }

bool sums(const Facts& facts) { return facts.moves == Moves::reduce; }

bool is_message(const Facts& facts) { return facts.moves == Moves::send || facts.moves == Moves::receive; }

bool gathers_for_embedding(const Facts& facts) {
  return facts.scope == "embed" && facts.phase == Phase::backward && facts.moves == Moves::gather &&
         !only_over(facts, "model");
}

struct Rule {
  const char* purpose;
  bool (*applies)(const Facts&);
  /// kEveryDegree: every degree behind the axes becomes 1; kUnshared: `model` gets no more chips than there are parts;
  /// kNothingRemovesIt.
  std::string_view change;
  const char* note;
};

using blocks::kEveryDegree;
using blocks::kNothingRemovesIt;
constexpr std::string_view kUnshared = "unshared";

// The first rule that applies counts, unless what it would change is so already. What moves weights and gradients comes
// before the advice of the block's family.
constexpr Rule kRules[] = {
    {"the loss", [](const Facts& f) { return f.is_scalar && f.scope == "loss"; }, kNothingRemovesIt,
     "the loss is a mean over all tokens"},
    {"the gradient norm", [](const Facts& f) { return f.scope == "update.norm"; }, kNothingRemovesIt,
     "every chip clips by the norm of all gradients"},
    {"single numbers", [](const Facts& f) { return f.is_scalar && !is_message(f); }, kNothingRemovesIt,
     "every chip needs the number of all chips"},
    {"gradients of a weight that two stages hold", [](const Facts& f) { return f.moves == Moves::pair_sum; },
     "layout.pipeline_parallel=1", "a tied embedding stands in the first and the last stage"},
    {"whole matrices for the optimizer", [](const Facts& f) { return f.of_matrices && !over(f, "model"); },
     "layout.zero=0", "then every chip has the momentum of its matrices whole; adamw and sgd need no whole matrices"},
    {"whole matrices for the optimizer", [](const Facts& f) { return f.of_matrices; }, kEveryDegree,
     "adamw and sgd need no whole matrices"},
    {"gradients of weights that several chips share",
     [](const Facts& f) { return only_over(f, "model") && f.sharing_parts > 0; }, kUnshared,
     "there are fewer KV heads or groups than chips"},
    {"gradients of weights that see part of the tokens",
     [](const Facts& f) { return only_over(f, "model") && sums(f) && (f.phase == Phase::update || f.of_gradient); },
     "layout.sequence_parallel=false", "then norms see all tokens on every chip; activations between mixers grow"},
    {"gradients, once per step",
     [](const Facts& f) { return (f.phase == Phase::update && sums(f)) || (f.of_gradient && f.is_once); }, kEveryDegree,
     "chips that see different tokens add up what they found"},
    {"gradients, in every micro-step", [](const Facts& f) { return f.of_gradient; }, "layout.zero=1",
     "then the update adds them up, once per step"},
    {"updated weights", [](const Facts& f) { return f.phase == Phase::update && f.moves == Moves::gather; },
     "layout.zero=0", "then every chip updates all of its weights"},
    {"weights, where they are used",
     [](const Facts& f) { return f.of_weight && f.requested && f.phase == Phase::forward; }, "layout.zero=2",
     "then weights stay whole"},
    {"weights, again in the backward pass", [](const Facts& f) { return f.of_weight && f.requested; },
     "layout.reshard_after_forward=false", "then weights stay whole from forward to backward"},
    {"weights, whole where tokens are split", [](const Facts& f) { return f.of_weight && over(f, "model"); },
     "layout.sequence_parallel=false", "then tokens come whole and the weight stays split"},
    {"tokens, for the rows of the embedding's gradient that a chip stores",
     [](const Facts& f) { return gathers_for_embedding(f) && f.is_once; }, "layout.zero=0",
     "then every chip adds its tokens to a whole gradient"},
    {"tokens, for the rows of the embedding's gradient that a chip stores", gathers_for_embedding, "layout.zero=1",
     "then every chip adds its tokens to a whole gradient"},
    {"activations between stages", [](const Facts& f) { return over(f, "stage") || is_message(f); },
     "layout.pipeline_parallel=1", ""},
};

// After it, what is left.
constexpr Rule kLastRules[] = {
    {"the softmax over a split vocabulary", [](const Facts& f) { return only_over(f, "model") && f.scope == "loss"; },
     "layout.tensor_parallel=1", "whole logits would be more bytes"},
    {"rows of a split embedding", [](const Facts& f) { return only_over(f, "model") && f.scope == "embed"; },
     "layout.tensor_parallel=1", ""},
    {"sums of split products", [](const Facts& f) { return only_over(f, "model") && f.kind == "all_reduce"; },
     "layout.tensor_parallel=1", ""},
    {"tokens between mixers and split products", [](const Facts& f) { return only_over(f, "model"); },
     "layout.tensor_parallel=1",
     "layout.sequence_parallel=false makes an all-reduce of as many bytes of each gather and scatter"},
    {"tensors whose reader needs them whole", [](const Facts&) { return true; }, kEveryDegree, ""},
};

std::string without_degree(const std::string& axis) {
  const auto key = plan::degree_keys().find(axis);
  MEGACPP_CHECK(key != plan::degree_keys().end()) << "no degree stands behind axis " << axis;
  return key->second + "=1";
}

bool is_in_effect(std::string_view change, const plan::ResolvedLayout& layout) {
  if (change == kEveryDegree || change == kUnshared || change == kNothingRemovesIt) return false;
  recipe::Recipe changed;
  changed.layout = layout.keys();
  recipe::apply_overrides(changed, std::vector<std::string>{std::string(change)});
  return changed.layout == layout.keys();
}

Removal removal_by(std::string_view purpose, std::string_view change, std::string_view note, const Facts& facts) {
  Removal removal{.purpose = std::string(purpose), .changes = {}, .note = std::string(note)};
  if (change == kEveryDegree) {
    for (const std::string& axis : facts.axes) removal.changes.push_back(without_degree(axis));
  } else if (change == kUnshared) {
    removal.changes.push_back("layout.tensor_parallel=" + std::to_string(facts.sharing_parts));
  } else if (change != kNothingRemovesIt) {
    removal.changes.emplace_back(change);
  }
  return removal;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

Removal removal_of(const Facts& facts, const plan::ResolvedLayout& layout) {
  const auto counts = [&](bool applies, std::string_view change) { return applies && !is_in_effect(change, layout); };
  for (const Rule& rule : kRules)
    if (counts(rule.applies(facts), rule.change)) return removal_by(rule.purpose, rule.change, rule.note, facts);
  if (facts.family != nullptr)
    for (const blocks::CollectiveAdvice& advice : facts.family->advice)
      if (counts(advice.applies(facts.kind, facts.axes), advice.change))
        return removal_by(advice.purpose, advice.change, advice.note, facts);
  for (const Rule& rule : kLastRules)
    if (counts(rule.applies(facts), rule.change)) return removal_by(rule.purpose, rule.change, rule.note, facts);
  MEGACPP_CHECK(false) << "the last rule applies to everything";
  return {};
}

}  // namespace megacpp::compile
