// SPDX-License-Identifier: Apache-2.0
// What a compiled training step has of each kind on a chip: the terms that rules for reserved bytes add up.
#pragma once

#include <cstdint>
#include <map>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// Bytes of a chip, where nothing else is said.
struct StepParts {
  int64_t arguments = 0;                  // state and batch (emit/step)
  std::map<char, int64_t> block_weights;  // in f32, by letter, as stored
  int64_t outside_weights = 0;            // likewise, of embedding, head and the last norm
  int64_t outside_state = 0;              // these and what the optimizer keeps for them
  int64_t computed_weights = 0;           // all in f32, as products have them: gathered where ZeRO 3 shards them
  int64_t copied_weights = 0;             // in f32 as stored, of which parts that chips update fill whole tiles
  int64_t gradients = 0;                  // alive where forward and backward pass need the most
  int64_t unscattered_sums = 0;           // beside these, of sums that XLA scatters behind all micro-steps
  int64_t all_gradients = 0;              // as the update gets them
  int64_t logits = 0;                     // in bf16
  int64_t head_weight = 0;                // in f32, as its product has it
  int64_t scores = 0;                     // number of them, of the attention with the most that is no loop over blocks
  char scores_letter = 0;                 // its letter
  int64_t block_scores = 0;               // of its block of queries that has the most
  int64_t scores_with_masked = 0;         // of all its blocks of queries: on the diagonal they have masked ones too
  int64_t loop_temporaries = 0;           // of the attention that is one, and holds the most beside what it reads
  int64_t gradient_chips = 1;             // that gradients of dense parameters are reduced over
  bool gathers_weights = false;           // ZeRO 3 over several of these
  bool gathers_updates = false;  // ZeRO 1 or 2 over several of these: weights are whole, and put together by the update
  /// Micro-steps add to a whole gradient of the head's weight; of one that is the table too this was not seen.
  bool sums_whole_head = false;
  int64_t sequences = 0;  // in a micro-step of the chip

  int64_t stored_block_weights() const;
  /// Chips update parts of what is computed.
  bool scatters_gradients() const { return gathers_weights || gathers_updates; }
};

/// Of a step without a pipeline that was compiled for `target`.
StepParts step_parts(const plan::PlannedRecipe& planned, const compile::Compiled& compiled,
                     const schedule::Target& target, const hw::Chip& device);

/// The same in bf16.
int64_t in_bf16(int64_t f32_bytes);

}  // namespace megacpp::fit
