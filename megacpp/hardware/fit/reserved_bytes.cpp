// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/reserved_bytes.h"

#include <algorithm>
#include <cmath>

#include "megacpp/hardware/fit/stacked_bytes.h"
#include "megacpp/hardware/fit/step_parts.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using recipe::RecomputeLevel;

// Of the steps that the rules were made from. In loops they hold beyond, but not as closely.
constexpr int64_t kLongestSequence = 4096;

bool keeps_all(const recipe::Recipe& recipe, char letter) {
  return recipe::recompute_level(recipe, letter) == RecomputeLevel::none;
}

bool keeps_all(const recipe::Recipe& recipe) { return recipe::all_recompute_at(recipe, RecomputeLevel::none); }

/// Weights in bf16 that the plan counts as activations: of blocks that neither gather nor convert them again.
int64_t kept_weight_bytes(const StepParts& parts, const recipe::Recipe& recipe) {
  if (parts.gathers_weights) return 0;
  int64_t bytes = 0;
  for (const auto& [letter, weights] : parts.block_weights)
    if (keeps_all(recipe, letter)) bytes += in_bf16(weights);
  return bytes;
}

/// What blocks keep for the backward pass as the recipe recomputes, without copies of weights.
int64_t kept_bytes(const recipe::Recipe& recipe, const StepParts& parts, const schedule::Target& target) {
  return std::max<int64_t>(0, stacked_bytes(recipe, target) - kept_weight_bytes(parts, recipe));
}

recipe::Recipe with_all_kept(recipe::Recipe recipe) {
  recipe::set_recompute_levels(recipe, RecomputeLevel::none);
  return recipe;
}

/// Bytes that recorded steps have so many of, more or less.
struct About {
  int64_t expected = 0;
  int64_t uncertain = 0;  // to both sides
};

About between(int64_t least, int64_t most) { return {.expected = (least + most) / 2, .uncertain = (most - least) / 2}; }

/// With selective recompute of feed-forwards that keep all, of those with experts only if it is said so.
recipe::Recipe with_fused_feed_forwards(const recipe::Recipe& recipe, bool experts_too) {
  recipe::Recipe fused = recipe;
  for (const recipe::BlockType& type : recipe::block_types(recipe.model)) {
    const blocks::Traits traits = type.traits();
    const bool is_fused = traits.selective_is_cheap || (experts_too && traits.router.experts > 0);
    if (is_fused && keeps_all(recipe, type.letter))
      recipe::set_recompute_level(fused, type.letter, RecomputeLevel::selective);
  }
  return fused;
}

/// Fusions across both passes make again what selective recompute of feed-forwards does, of experts a part of it: not,
/// as recorded steps show, between weights that ZeRO 3 gathers twice and several sequences of a chip.
About kept_beside_fusions(const recipe::Recipe& recipe, const StepParts& parts, const schedule::Target& target) {
  if (parts.gathers_weights && parts.sequences > 1) return {.expected = kept_bytes(recipe, parts, target)};
  const recipe::Recipe dense = with_fused_feed_forwards(recipe, false), all = with_fused_feed_forwards(recipe, true);
  const int64_t most = kept_bytes(dense, parts, target);
  return all.train == dense.train ? About{.expected = most} : between(kept_bytes(all, parts, target), most);
}

/// Weights in bf16 that XLA gathers at the start of a micro-step and holds through it: none of them, or all where
/// blocks recompute whole, at most half where they do not.
About gathered_early(const recipe::Recipe& recipe, const StepParts& parts) {
  if (!parts.gathers_weights || recipe.train.micro_steps == 1) return {};
  const int64_t all = in_bf16(parts.computed_weights);
  return between(0, recipe::all_recompute_at(recipe, RecomputeLevel::full) ? all : all / 2);
}

// What blocks of a loop's body do not keep XLA makes again for half of them before it uses it.
double alive_blocks(const recipe::Recipe& recipe, const hw::Chip& device) {
  if (keeps_all(recipe)) return device.alive_blocks;
  return std::max(device.alive_blocks, static_cast<double>(recipe::repeated_blocks(recipe.model).period) / 2);
}

// Scores in an attention's gradient are there in f32 and in bf16: both at once of one sequence a chip, and of several
// where nothing is recomputed or weights are gathered and blocks of another kind keep all; only the former where all
// recompute with gathered weights. Else recorded steps have the one or the other.
About score_bytes(const recipe::Recipe& recipe, const StepParts& parts) {
  if (parts.scores == 0) return {};
  const int64_t wide = 4 * parts.scores, narrow = 2 * parts.scores;
  if (parts.sequences <= 1 || keeps_all(recipe)) return {.expected = wide + narrow};
  const std::vector<char> letters = recipe::recompute_letters(recipe.model);
  const auto keeping = std::ranges::count_if(letters, [&](char letter) { return keeps_all(recipe, letter); });
  if (parts.gathers_weights && keeping == 0) return {.expected = wide};
  if (parts.gathers_weights && !keeps_all(recipe, parts.scores_letter)) return {.expected = wide + narrow};
  return {.expected = wide + narrow / 2, .uncertain = narrow / 2};
}

/// In the backward loop. Of several micro-steps the head's work comes behind that of the blocks, which then hold the
/// logits too, unless it is the blocks that hold the most: then it comes first.
int64_t backward_bytes(int64_t blocks, int64_t head, const StepParts& parts, bool has_sums) {
  return has_sums && blocks <= head ? blocks + parts.logits : blocks;
}

int64_t scaled(double factor, int64_t bytes) { return std::llround(factor * static_cast<double>(bytes)); }

ReservedBytes in_loops(const recipe::Recipe& recipe, const StepParts& parts, const schedule::Target& target,
                       const hw::Chip& device) {
  const bool has_sums = recipe.train.micro_steps > 1;
  const int64_t sums = has_sums ? parts.gradients : 0;
  const About scores = score_bytes(recipe, parts);
  const int64_t kept = kept_bytes(recipe, parts, target);
  const int64_t all = keeps_all(recipe) ? kept : kept_bytes(with_all_kept(recipe), parts, target);
  // Converted once for all micro-steps. Of one alone blocks that recompute read them in both loops, others in the
  // forward loop, and keep what they read.
  const int64_t converted = in_bf16(parts.stored_block_weights());
  const int64_t kept_weights = kept_weight_bytes(parts, recipe);
  const bool for_all = parts.gathers_weights || has_sums;
  // Of one sequence a chip their gradient is in the same bytes.
  const int64_t head = parts.head_weight + parts.logits * (parts.sequences > 1 ? 2 : 1) + sums;
  const int64_t blocks = parts.gradients + scores.expected + parts.loop_temporaries +
                         scaled(alive_blocks(recipe, device), all / recipe.model.depth);
  return {.arguments = parts.arguments,
          .weights_in_f32 = parts.gathers_weights ? 0 : parts.outside_weights,
          .kept = kept,
          .weights_in_bf16 = converted + (for_all ? kept_weights : 0),
          .forward = sums + (for_all ? 0 : kept_weights),
          .head = head,
          .backward = backward_bytes(blocks, head, parts, has_sums),
          .update = parts.all_gradients + parts.outside_state,  // blocks are updated in loops, in place
          .uncertain = scores.uncertain,
          .largest = parts.head_weight,
          .off_most = reserved_off_most(recipe, device)};
}

// Blocks of queries come one after the other, each with its scores in f32 and in bf16; where the attention recomputes
// whole, those in f32 of all blocks are from its second forward pass.
int64_t unrolled_score_bytes(const recipe::Recipe& recipe, const StepParts& parts) {
  const bool is_whole =
      parts.scores > 0 && recipe::recompute_level(recipe, parts.scores_letter) == RecomputeLevel::full;
  return 4 * (is_whole ? parts.scores_with_masked : parts.block_scores) + 2 * parts.block_scores;
}

// Alive while blocks have their backward pass: not where the head's gradient comes before that, as it does where it is
// scattered at once or takes fewer bytes than logits do.
int64_t logits_beside_blocks(const StepParts& parts, bool has_sums) {
  if (parts.logits > parts.head_weight || (!has_sums && parts.scatters_gradients())) return 0;
  return parts.logits;
}

ReservedBytes unrolled(const recipe::Recipe& recipe, const StepParts& parts, const schedule::Target& target,
                       const hw::Chip& device) {
  const bool has_sums = recipe.train.micro_steps > 1;
  const int64_t sums = has_sums ? parts.gradients + parts.unscattered_sums : 0;
  const int64_t stored = parts.stored_block_weights() + parts.outside_weights;
  const About kept = kept_beside_fusions(recipe, parts, target);
  const About gathered = gathered_early(recipe, parts);
  const int64_t logits = logits_beside_blocks(parts, has_sums);
  // Their gradient or the head's, which is added to a whole sum where that is.
  const int64_t beside_logits = has_sums && parts.sums_whole_head ? 0 : std::max(parts.logits, parts.head_weight);
  return {.arguments = parts.arguments,
          .weights_in_f32 = parts.gathers_updates ? parts.copied_weights : 0,
          .kept = kept.expected,
          // What no micro-step changes is made before the loop over them.
          .weights_in_bf16 = (has_sums ? in_bf16(stored) : 0) + gathered.expected,
          .forward = sums,
          .head = parts.logits + beside_logits + sums,
          .backward = logits + unrolled_score_bytes(recipe, parts) + parts.loop_temporaries + sums,
          // Those that no other chip adds to are used up as they are made.
          .update = parts.gradient_chips > 1 ? logits + parts.gradients : 0,
          .uncertain_in_both = kept.uncertain + gathered.uncertain,
          .largest = parts.head_weight,
          .off_most = reserved_off_most(recipe, device)};
}

}  // namespace

int64_t ReservedBytes::alive() const {
  const int64_t passes = kept + weights_in_bf16 + std::max({forward, head, backward});
  return arguments + weights_in_f32 + std::max(passes, update) + other;
}

ReservedRange ReservedBytes::range() const {
  const double off = 1 + off_most;
  ReservedBytes low = *this, high = *this;
  low.backward -= uncertain;
  high.backward += uncertain;
  low.kept -= uncertain_in_both;
  high.kept += uncertain_in_both;
  return {.least = std::max(scaled(1 / off, low.total()) - kSmallBuffers - code, arguments),
          .expected = total() - code,
          .most = std::max(scaled(off, high.total()), high.total() + largest) + kSmallBuffers - code,
          .least_code = code,
          .code = code,
          .alive = alive()};
}

bool has_reserved_rule(const recipe::Recipe& recipe, const hw::Chip& device) {
  return device.reserved_per_alive > 0 && recipe.xla.placement == recipe::XlaPlacement::megacpp &&
         recipe.train.precision == ir::DType::bf16 &&
         (recipe.train.sequence <= kLongestSequence || recipe::has_block_loops(recipe));
}

double reserved_off_most(const recipe::Recipe& recipe, const hw::Chip& device) {
  const bool is_close = recipe::has_block_loops(recipe) && recipe.train.sequence <= kLongestSequence;
  return is_close ? device.reserved_off_most : device.unrolled_off_most;
}

int64_t reserved_code(const recipe::Recipe& recipe, const hw::Chip& device) {
  const int64_t blocks = recipe.model.depth;
  if (!recipe::has_block_loops(recipe)) return device.code_bytes_base + device.unrolled_code_per_block * blocks;
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  const auto again = static_cast<int64_t>(repeat.period * (repeat.count - 1));
  return device.code_bytes_base + device.code_bytes_per_block * (blocks - again);
}

ReservedBytes with_gaps_and_code(ReservedBytes terms, const recipe::Recipe& recipe, const memory::MemoryPlan& memory,
                                 const hw::Chip& device) {
  terms.other = 0;
  const bool is_peak_in_update = memory.peak_program == "update";
  if (is_peak_in_update) terms.other = std::max<int64_t>(0, memory.total_bytes - terms.alive());
  const bool has_loops = recipe::has_block_loops(recipe);
  terms.gaps = scaled((has_loops ? device.reserved_per_alive : device.unrolled_per_alive) - 1, terms.alive());
  terms.code = reserved_code(recipe, device);
  return terms;
}

std::optional<ReservedBytes> reserved_bytes(const plan::PlannedRecipe& planned, const compile::Compiled& compiled,
                                            const schedule::Target& target, const hw::Chip& device) {
  const recipe::Recipe& recipe = planned.recipe();
  if (!has_reserved_rule(recipe, device) || compiled.stages.size() > 1) return std::nullopt;
  const bool has_loops = recipe::has_block_loops(recipe);
  const StepParts parts = step_parts(planned, compiled, target, device);
  return with_gaps_and_code((has_loops ? in_loops : unrolled)(recipe, parts, target, device), recipe,
                            compiled.stages[0].memory, device);
}

bool has_reserved_range(const hw::Chip& device) { return device.kind == hw::ChipKind::tpu && device.gaps_least < 1; }

std::optional<ReservedRange> reserved_range(const std::optional<ReservedBytes>& reserved, const recipe::Recipe& recipe,
                                            const compile::Compiled& compiled, const hw::Chip& device) {
  if (reserved) return reserved->range();
  if (!has_reserved_range(device) || compiled.stages.size() > 1) return std::nullopt;
  const memory::MemoryPlan& memory = compiled.stages[0].memory;
  const int64_t planned = memory.total_bytes;
  // Where blocks are unrolled, fusions across both passes may make most of a long step again.
  const bool is_made_again = !recipe::has_block_loops(recipe) && recipe.train.sequence > kLongestSequence;
  const double least = is_made_again ? 0 : device.gaps_least;
  return ReservedRange{.least = std::max(scaled(least, planned), memory.state_bytes),
                       .expected = planned,
                       .most = scaled(device.gaps_most, planned),
                       .least_code = device.code_bytes_least,
                       .code = code_bytes(device),
                       .alive = planned};
}

}  // namespace megacpp::fit
