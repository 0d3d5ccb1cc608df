// SPDX-License-Identifier: Apache-2.0
// What a compiled training step has of each kind on a chip, as XLA for TPUs gets it: the numbers that its rule
// (tpu_rule.h) adds up.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/hw/chip.h"

namespace megacpp::runtime::xla {

/// Bytes of a chip, where nothing else is said.
struct StepParts {
  int64_t arguments = 0;         // state and batch (emit/step)
  int64_t block_weights = 0;     // in f32, as stored
  int64_t outside_weights = 0;   // likewise, of embedding, head and the last norm
  int64_t outside_state = 0;     // these and what the optimizer keeps for them
  int64_t computed_weights = 0;  // all in f32, as products have them: gathered where ZeRO 3 shards them
  int64_t copied_weights = 0;    // in f32 as stored, of which parts that chips update fill whole tiles
  int64_t kept_weights = 0;      // in bf16, of blocks that neither gather nor convert them again
  /// What blocks keep for the backward pass, without weights: in loops as the recipe recomputes, unrolled also without
  /// what fusions across both passes make again.
  int64_t kept = 0;
  int64_t kept_of_block = 0;     // by one block of the mean if nothing were recomputed
  int64_t gradients = 0;         // alive where forward and backward pass need the most
  int64_t all_gradients = 0;     // as the update gets them
  int64_t logits = 0;            // in bf16
  int64_t head_weight = 0;       // in f32, as its product has it
  int64_t scores = 0;            // number of them, of the attention with the most that is no loop over blocks
  int64_t block_scores = 0;      // of its block of queries that has the most
  int64_t scores_at_once = 0;    // that unrolled blocks hold in f32: where it recomputes whole those of all its blocks
  int64_t loop_temporaries = 0;  // of the attention that is one, and holds the most beside what it reads
  bool has_loops = true;         // blocks that repeat are in loops
  bool adds_sums = false;        // gradients of several micro-steps
  bool reduces_gradients = false;  // of dense parameters, with other chips
  bool gathers_weights = false;    // ZeRO 3 over several of these
  bool gathers_updates = false;  // ZeRO 1 or 2 over several of these: weights are whole, and put together by the update
  int64_t sequences = 0;         // in a micro-step of the chip
};

/// Of a step without a pipeline. Of a deep model each number is on the line of its shallow plans; nothing where it is
/// on none. It compiles the blocks that repeat once more, and in loops that recompute twice.
std::optional<StepParts> step_parts(const fit::StepProgram& step, const hw::Chip& device);

/// The same in bf16.
int64_t in_bf16(int64_t f32_bytes);

}  // namespace megacpp::runtime::xla
