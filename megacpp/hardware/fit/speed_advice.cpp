// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/speed_advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

bool recomputes(const recipe::Train& train) {
  return std::ranges::any_of(train.recompute,
                             [](const auto& level) { return !recipe::keeps_everything(level.second); });
}

// What the collectives over an axis are for decides what makes them fewer.
std::string for_axes(const std::string& axes, const plan::Plan& plan) {
  if (axes.starts_with("model")) return "lower layout.tensor_parallel, or give each chip more tokens (train.batch)";
  if (axes.starts_with("context")) return "lower layout.context_parallel, or take longer sequences";
  if (axes.starts_with("expert")) return "lower layout.expert_parallel, or give each chip more tokens (train.batch)";
  if (axes.starts_with("stage")) return "lower layout.pipeline_parallel";
  if (plan.layout.zero() == 3)
    return "set layout.zero: 2 or layout.reshard_after_forward: false where memory allows, or give each chip more "
           "tokens "
           "(train.batch)";
  return "give each chip more tokens (train.batch, or train.micro_steps), or lower layout.data_parallel";
}

std::string for_links(const StepTime& time, const plan::Plan& plan) {
  const auto worst = std::ranges::max_element(time.links, {}, &LinkTime::exposed);
  if (worst == time.links.end() || time.exposed_copies > worst->exposed)
    return "Most of the waiting is for copies from and to the host: offload less (layout.offload, "
           "layout.offload_blocks), recompute instead (train.recompute), or raise train.micro_steps where state is "
           "offloaded.";
  return fmt::format("Most of the waiting is for collectives over {}: {}.", worst->axes, for_axes(worst->axes, plan));
}

}  // namespace

std::string speed_advice(const StepTime& time, const plan::Plan& plan, const recipe::Train& train) {
  switch (time.largest()) {
    case StepPart::links:
      return for_links(time, plan);
    case StepPart::bubble:
      return "Stages wait for each other: raise train.micro_steps, or set layout.schedule: interleaved with "
             "layout.virtual_stages above 1, or zero_bubble.";
    case StepPart::memory:
      return "Memory traffic sets the pace: give each chip more tokens (train.batch) so that every byte of weights "
             "serves more of them, or split less (layout.tensor_parallel).";
    case StepPart::other:  // of measured runs only: a predicted step has none
    case StepPart::arithmetic:
      break;
  }
  return recomputes(train)
             ? "Arithmetic sets the pace: recompute less (train.recompute) where memory allows, or add chips."
             : "Arithmetic sets the pace, which is the best there is: only more or faster chips shorten it.";
}

}  // namespace megacpp::fit
