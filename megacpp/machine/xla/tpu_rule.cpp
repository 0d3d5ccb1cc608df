// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/tpu_rule.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "megacpp/machine/xla/reserve.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_loops.h"

namespace megacpp::runtime::xla {
namespace {

// All from libtpu 0.0.48.1 for v6e. Gaps, over what is alive: lists of buffers of fifteen steps with blocks in loops
// (bench/results/2026-11-18-v6e-placed.txt); the middle of the unrolled tuning rows of
// tests/golden/v6e_placed_steps.jsonl. Code of a block that the program has text of: 25 MB in loops, 14.5 to 24 MB
// unrolled (bench/results/2026-11-18-v6e-unrolled.json). Blocks whose values are alive in the backward loop, beside
// what all blocks keep: the tuning rows of tests/golden/v6e_*_steps.jsonl in loops.
constexpr double kGapsInLoops = 0.01, kGapsUnrolled = 0.06;
constexpr int64_t kCodeOfABlock = 20'000'000;
constexpr double kAliveBlocks = 2.5;

int64_t scaled(double factor, int64_t bytes) { return std::llround(factor * static_cast<double>(bytes)); }

/// A term that recorded steps have so much of, more or less.
struct Term {
  const char* name;
  int64_t bytes = 0;
  const char* sentence;
  int64_t uncertain = 0;  // to both sides
};
using Terms = std::vector<Term>;

int64_t sum_of(const Terms& terms, int uncertain_side = 0) {
  int64_t sum = 0;
  for (const Term& term : terms) sum += term.bytes + uncertain_side * term.uncertain;
  return sum;
}

/// A step holds `always`, and at each of its moments what that moment has beside.
struct Alive {
  Terms always;
  std::vector<Terms> moments;

  /// The moment that has the most, of terms that have more (1), less (-1) or as much as expected.
  const Terms& peak(int uncertain_side = 0) const {
    return *std::ranges::max_element(moments, {}, [&](const Terms& terms) { return sum_of(terms, uncertain_side); });
  }
  int64_t bytes(int uncertain_side = 0) const {
    return sum_of(always, uncertain_side) + sum_of(peak(uncertain_side), uncertain_side);
  }
};

Terms joined(Terms terms, const Terms& more) {
  terms.insert(terms.end(), more.begin(), more.end());
  return terms;
}

Term arguments_of(const StepParts& step) {
  return {"arguments", step.arguments, "State and batch enter the program and stay, padded to tiles."};
}

Alive alive_in_loops(const StepParts& step) {
  const int64_t sums = step.adds_sums ? step.gradients : 0;
  const bool has_several = step.sequences > 1;
  const Term weights_in_f32 = {
      "weights in f32", step.gathers_weights ? 0 : step.outside_weights,
      "XLA copies embedding and head before the first loop and holds them to the update, unless ZeRO 3 gathers them."};
  // Weights that blocks keep stay in stacks of their own; several micro-steps read both these and the converted ones.
  const Terms both_passes = {
      {"kept by blocks", step.kept,
       "The forward loop fills stacks with what blocks keep, and the backward loop holds them whole to its end."},
      {"weights in bf16", in_bf16(step.block_weights) + (step.adds_sums ? step.kept_weights : 0),
       "Whole stacks of weights are converted before the loops that read them."}};
  const Terms head = {
      {"head", step.head_weight + step.logits * (has_several ? 2 : 1),
       "The gradient of the head's weight is whole in f32, beside logits in bf16 and, of several sequences, theirs."},
      {"sums", sums, "Gradients of earlier micro-steps wait for the update."}};
  Terms backward = {
      {"gradients", step.gradients, "Gradients of blocks are alive until they are reduced or added up."},
      {"scores", (has_several ? 5 : 6) * step.scores,
       "An attention's gradient holds its scores in f32 and in bf16, the latter not always of several sequences.",
       has_several ? step.scores : 0},
      {"attention loop", step.loop_temporaries,
       "Attention that is a loop over blocks holds scores of one pair of them."},
      {"values of blocks", scaled(kAliveBlocks, step.kept_of_block),
       "What is taken out of the stacks, made again or a gradient of these is that of two or three blocks."}};
  if (step.adds_sums && sum_of(backward) <= sum_of(head))
    backward.push_back({"logits", step.logits, "The head's work, which holds more, comes behind that of the blocks."});
  const Terms update = {
      {"gradients", step.all_gradients, "The update reads all of them, and replaces blocks in place."},
      {"new state", step.outside_state,
       "Weights and moments outside blocks are all made anew before any replaces the old."}};
  return {.always = {arguments_of(step), weights_in_f32},
          .moments = {joined(both_passes, head), joined(both_passes, backward), update}};
}

Alive alive_unrolled(const StepParts& step) {
  const int64_t sums = step.adds_sums ? step.gradients : 0;
  const Term weights_in_f32 = {
      "weights in f32", step.gathers_updates ? step.copied_weights : 0,
      "ZeRO 1 and 2 put updated parts together in a copy, of all weights whose parts are whole tiles."};
  const int64_t gathered = step.gathers_weights && step.adds_sums ? in_bf16(step.computed_weights) : 0;
  const Terms both_passes = {
      {"kept by blocks", step.kept, "Blocks keep what fusions across both passes do not make again."},
      {"weights in bf16", step.adds_sums ? in_bf16(step.block_weights + step.outside_weights) : 0,
       "What no micro-step changes is converted before the loop over them."},
      {"gathered early", gathered / 4,
       "None to half of the weights that ZeRO 3 gathers are there from the start of a micro-step.", gathered / 4},
      {"sums", sums, "Gradients of earlier micro-steps wait for the update."}};
  const Terms head = {{"head", step.logits + std::max(step.logits, step.head_weight),
                       "Logits in bf16 are held beside their gradient or that of the head's weight."}};
  const Terms backward = {{"scores", 4 * step.scores_at_once + 2 * step.block_scores,
                           "Blocks of queries come one after the other, each with its scores in f32 and in bf16."},
                          {"attention loop", step.loop_temporaries,
                           "Attention that is a loop over blocks holds scores of one pair of them."}};
  const Terms update = {{"gradients", step.reduces_gradients ? step.gradients : 0,
                         "The update reads those that other chips add to; others are used up as they are made."}};
  return {.always = {arguments_of(step), weights_in_f32},
          .moments = {joined(both_passes, head), joined(both_passes, backward), update}};
}

bool is_close(const recipe::Recipe& recipe) {
  return recipe::has_block_loops(recipe) && recipe.train.sequence <= kLongestSequence;
}

/// Of a loop each block of its body once.
int64_t blocks_with_text(const recipe::Recipe& recipe) {
  if (!recipe::has_block_loops(recipe)) return recipe.model.depth;
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  return recipe.model.depth - static_cast<int64_t>(repeat.period * (repeat.count - 1));
}

}  // namespace

bool has_tpu_rule(const recipe::Recipe& recipe, const hw::Chip& device) {
  return device.xla.off_most > 0 && recipe.xla.placement == recipe::XlaPlacement::megacpp &&
         recipe.train.precision == ir::DType::bf16 && !has_dropless_experts(recipe.model) &&
         (recipe.train.sequence <= kLongestSequence || recipe::has_block_loops(recipe));
}

fit::Reservation tpu_reservation(const TpuStep& step) {
  const bool has_loops = step.parts.has_loops;
  const Alive alive = has_loops ? alive_in_loops(step.parts) : alive_unrolled(step.parts);
  const int64_t at_once = alive.bytes(), code = kCodeOfABlock * step.blocks;
  const int64_t gaps = scaled(has_loops ? kGapsInLoops : kGapsUnrolled, at_once);
  const int64_t low = alive.bytes(-1) + gaps + code, high = alive.bytes(1) + gaps + code;
  const double off = 1 + step.off_most;
  fit::Reservation reservation{.least = std::max(scaled(1 / off, low) - kSmallBuffers, step.parts.arguments + code),
                               .expected = at_once + gaps + code,
                               .most = std::max(scaled(off, high), high + step.parts.head_weight) + kSmallBuffers,
                               .least_code = code,
                               .code = code,
                               .state = step.parts.arguments,
                               .alive = at_once,
                               .is_asked_first = true};
  Terms terms =
      joined(joined(alive.always, alive.peak()),
             {{"gaps", gaps, "XLA leaves some bytes between buffers."},
              {"code", code, "The program is in the same memory, and has text of each block of a loop once."}});
  for (const Term& term : terms)
    if (term.bytes > 0) reservation.why.push_back({term.name, term.bytes, term.sentence});
  return reservation;
}

std::optional<fit::Reservation> reserve_by_tpu_rule(const fit::StepProgram& step, const hw::Chip& device) {
  std::optional<StepParts> parts = step_parts(step, device);
  if (!parts) return std::nullopt;
  return tpu_reservation(
      {.parts = std::move(*parts),
       .blocks = blocks_with_text(step.planned.recipe()),
       .off_most = is_close(step.planned.recipe()) ? device.xla.off_most : device.xla.unrolled_off_most});
}

}  // namespace megacpp::runtime::xla
