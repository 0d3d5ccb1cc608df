// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/rungs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/plan/policy.h"
#include "megacpp/plan/unused_layout_keys.h"
#include "megacpp/recipe/block_loops.h"
#include "megacpp/recipe/block_types.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using ir::Role;
using plan::Changes;
using recipe::Recipe;

const std::vector<Role> kOfTokens = {Role::activation, Role::temporary, Role::collective, Role::batch};
const std::vector<Role> kOfParameters = {Role::weight,    Role::weight_copy, Role::gradient,
                                         Role::optimizer, Role::temporary,   Role::collective};
const std::vector<Role> kOfAll = {Role::weight,     Role::weight_copy, Role::gradient,   Role::optimizer,
                                  Role::activation, Role::temporary,   Role::collective, Role::batch};

/// Those of one key each that change anything in this layout: one chip has no copies to split, and nothing to gather.
std::vector<Changes> with_effect(std::vector<Changes> offers, const Recipe& recipe) {
  std::erase_if(offers, [&](const Changes& offer) {
    return std::ranges::any_of(plan::unused_layout_keys(), [&](const recipe::IgnoredKey& ignored) {
      return ignored.key == offer.front().key && (!ignored.applies || ignored.applies(recipe));
    });
  });
  return offers;
}

plan::Change set(std::string key, int64_t value) { return {std::move(key), std::to_string(value)}; }

std::vector<Changes> smaller_batch(const Recipe& recipe) {
  if (recipe.train.batch % 2 != 0) return {};
  return {{set("train.batch", recipe.train.batch / 2), set("train.micro_steps", recipe.train.micro_steps * 2)}};
}

std::vector<Changes> shorter_sequence(const Recipe& recipe) {
  if (recipe.train.sequence % 2 != 0) return {};
  return {{set("train.sequence", recipe.train.sequence / 2)}};
}

// What makes a step faster and not different: gathers ahead of their use, weights kept gathered, large buckets.
std::vector<Changes> fewer_features(const Recipe& recipe) {
  std::vector<Changes> offers;
  if (recipe.layout.reshard_after_forward != "true") offers.push_back({{"layout.reshard_after_forward", "true"}});
  if (recipe.layout.prefetch > 0) offers.push_back({set("layout.prefetch", 0)});
  if (recipe.layout.bucket_bytes != 1) offers.push_back({set("layout.bucket_bytes", 1)});
  return with_effect(std::move(offers), recipe);
}

// Half as many copies of the model, each spread over twice as many chips.
std::vector<Changes> other_topologies(const Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  std::vector<Changes> offers;
  const std::array<std::pair<const char*, int64_t>, 4> degrees = {
      {{"layout.tensor_parallel", layout.tensor_parallel},
       {"layout.expert_parallel", layout.expert_parallel},
       {"layout.context_parallel", layout.context_parallel},
       {"layout.pipeline_parallel", layout.pipeline_parallel}}};
  for (int64_t factor = 2; layout.data_parallel % factor == 0; factor *= 2)
    for (const auto& [key, degree] : degrees)
      offers.push_back({set("layout.data_parallel", layout.data_parallel / factor), set(key, degree * factor)});
  return offers;
}

// Letter by letter, first what costs little time, then everything. Letters whose blocks say that selective recompute is
// cheap come before the others.
std::vector<Changes> more_recompute(const Recipe& recipe) {
  std::vector<recipe::BlockType> types = recipe::block_types(recipe.model);
  std::ranges::stable_sort(types, std::greater<>(),
                           [](const recipe::BlockType& type) { return type.traits().selective_is_cheap; });
  std::vector<Changes> offers;
  for (const auto& [from, to] : {std::pair("none", "selective"), std::pair("selective", "full")})
    for (const recipe::BlockType& type : types)
      if (recipe::recompute_level(recipe, type.letter) == from)
        offers.push_back({{recipe::recompute_key(type.letter), to}});
  return offers;
}

std::vector<Changes> higher_zero(const Recipe& recipe) {
  recipe::Layout layout = recipe.layout;
  plan::apply_policy(layout);
  if (layout.zero >= 3) return {};
  return with_effect({{set("layout.zero", layout.zero + 1)}}, recipe);
}

// State first: it costs time in the update alone.
std::vector<Changes> more_to_the_host(const Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  if (layout.offloads_state() && layout.offloads_activations()) return {};
  if (layout.offload != "none") return {{{"layout.offload", "all"}}};
  return {{{"layout.offload", "optimizer"}}, {{"layout.offload", "activations"}}};
}

const std::vector<Rung>& table() {
  static const std::vector<Rung> rungs = {
      {.name = "batch",
       .does = "halve the device batch, double the micro-steps: the global batch stays",
       .may_reduce = kOfTokens,
       .keys = {"train.batch", "train.micro_steps"},
       .changes = smaller_batch},
      {.name = "recompute",
       .does = "compute activations again, letter by letter",
       .may_reduce = {Role::activation, Role::temporary, Role::collective},
       .keys = {"train.recompute."},
       .changes = more_recompute},
      {.name = "zero",
       .does = "split more of the state over the copies of the model",
       .may_reduce = kOfParameters,
       .keys = {"layout.zero"},
       .changes = higher_zero},
      {.name = "offload",
       .does = "keep the optimizer's state, then activations too, in the host's memory: slower, with the same result",
       .may_reduce = {Role::optimizer, Role::activation, Role::temporary},
       .keys = {"layout.offload"},
       .needs_host_memory = true,
       .changes = more_to_the_host},
      {.name = "sequence",
       .does = "halve the sequence: another experiment than requested",
       .may_reduce = kOfTokens,
       .keys = {"train.sequence"},
       .changes_experiment = true,
       .changes = shorter_sequence},
      {.name = "features",
       .does = "give up what only saves time: prefetch, weights kept gathered, large buckets",
       .may_reduce = {Role::activation, Role::temporary, Role::collective},
       .keys = {"layout.reshard_after_forward", "layout.prefetch", "layout.bucket_bytes"},
       .changes = fewer_features},
      {.name = "topology",
       .does = "fewer copies of the model, each over more chips",
       .may_reduce = kOfAll,
       .keys = {"layout.data_parallel", "layout.tensor_parallel", "layout.expert_parallel", "layout.context_parallel",
                "layout.pipeline_parallel"},
       .offers = Offers::alternatives,
       .changes = other_topologies},
  };
  return rungs;
}

}  // namespace

bool Rung::reduces(Role role) const { return std::ranges::find(may_reduce, role) != may_reduce.end(); }

bool Rung::may_change(std::string_view key) const {
  return std::ranges::any_of(
      keys, [key](std::string_view own) { return own.ends_with('.') ? key.starts_with(own) : key == own; });
}

std::span<const Rung> all_rungs() { return table(); }

std::vector<const Rung*> rungs_of(const recipe::Ladder& ladder) {
  std::vector<const Rung*> rungs;
  for (const std::string& name : ladder.rungs) {
    const auto at = std::ranges::find(table(), name, &Rung::name);
    MEGACPP_CHECK(at != table().end()) << "ladder.rungs was not validated: " << name;
    rungs.push_back(&*at);
  }
  return rungs;
}

bool offers(const Recipe& requested, const plan::Changes& changes) {
  const std::vector<const Rung*> rungs = rungs_of(requested.ladder);
  if (rungs.empty()) return changes.empty();
  const auto is_left_to_planning = [&](const std::string& key) {
    if (key == recipe::kLoopsKey) return requested.xla.loops == recipe::kLoopsByPlan;
    return std::ranges::any_of(recipe::recompute_letters(requested.model), [&](char letter) {
      return key == recipe::recompute_key(letter) &&
             recipe::recompute_level(requested, letter) == recipe::kAutoRecompute;
    });
  };
  return std::ranges::all_of(changes, [&](const plan::Change& change) {
    return is_left_to_planning(change.key) ||
           std::ranges::any_of(rungs, [&](const Rung* rung) { return rung->may_change(change.key); });
  });
}

bool changes_experiment(const plan::Changes& changes) {
  return std::ranges::any_of(changes, [](const plan::Change& change) {
    return std::ranges::any_of(
        table(), [&](const Rung& rung) { return rung.changes_experiment && rung.may_change(change.key); });
  });
}

}  // namespace megacpp::fit
