// SPDX-License-Identifier: Apache-2.0
// What XLA is expected to reserve on a chip for a training step whose blocks run in loops, and what of it is alive at
// once. What is alive was read from the compiler's own lists of buffers. It reserves more than these lists hold, and we
// do not know for what: the gaps, an iteration and most of the bytes of scores stand for that, fitted to recorded steps
// (two numbers of the chip's file). How far off it was on other steps is in docs/benchmarks.md.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/compile/compile.h"
#include "megacpp/fit/fit_report.h"
#include "megacpp/hw/chip.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/schedule/target.h"

namespace megacpp::fit {

struct ReservedBytes {
  int64_t arguments = 0;  // state and batch (emit/step)
  /// What blocks keep for the backward pass, as much of it as the plan has alive at its peak: stacks that the forward
  /// loop fills and the backward loop holds to its end (emit/loop_writer).
  int64_t kept = 0;
  int64_t gaps = 0;  // beside these stacks: other layouts, padding, what is between buffers
  /// Weights of blocks in bf16: stacks that XLA converts before the loop that reads them, and where ZeRO does not
  /// gather them again the copies that blocks keep for the backward pass.
  int64_t weight_copies = 0;
  int64_t outside_weights = 0;  // f32 copies of a chip's embedding and head, made where ZeRO 3 does not gather them
  int64_t gradients = 0;        // twice with several micro-steps
  int64_t logits = 0;           // in bf16, and their gradient in the same bytes: alive through the backward loop
  int64_t scores = 0;           // of one attention, all blocks of queries at once
  /// What blocks of one iteration would keep if nothing were recomputed: its members of the stacks, taken out or not
  /// yet put in, and what it makes again, all in one body that XLA schedules as a whole.
  int64_t iteration = 0;
  int64_t code = 0;  // grows with the blocks that the program has text of
  /// What the plan has alive at its peak beyond these, where that is elsewhere, as in an update: no less is reserved.
  int64_t other = 0;
  /// Expected to be alive at once, arguments included and code not: at the end of the forward loop, in the head, or in
  /// the backward loop. No factor of it was fitted; what counts as alive was chosen by tuning rows.
  int64_t peak = 0;

  int64_t total() const {
    return arguments + kept + gaps + weight_copies + outside_weights + gradients + logits + scores + iteration + code +
           other;
  }
  /// No less than arguments and code.
  ReservedRange range(const hw::Chip& device) const;
};

/// Whether what XLA reserves for such a step is known: not where the chip's file has no factors, blocks are no loop,
/// XLA places collectives itself, products are not in bf16, or sequences are longer than any recorded.
bool has_reserved_rule(const recipe::Recipe& recipe, const hw::Chip& device);

/// Of a step that was compiled for `target`; nothing where no rule is known, and for a pipeline. Where blocks recompute
/// it compiles one iteration more.
std::optional<ReservedBytes> reserved_bytes(const recipe::Recipe& recipe, const plan::Plan& plan,
                                            const compile::Compiled& compiled, const schedule::Target& target,
                                            const hw::Chip& device);

/// What verdicts are made of: by the rule, or as the chip's file has it for blocks that are in no loop. Nothing where
/// neither is known.
std::optional<ReservedRange> reserved_range(const std::optional<ReservedBytes>& reserved, const recipe::Recipe& recipe,
                                            const compile::Compiled& compiled, const hw::Chip& device);

}  // namespace megacpp::fit
