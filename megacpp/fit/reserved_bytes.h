// SPDX-License-Identifier: Apache-2.0
// What XLA is expected to reserve on a chip for a training step whose blocks run in loops: what is alive at once, as
// the compiler's own lists of buffers have it, the gaps between these buffers, and code. Two numbers of the chip's file
// were fitted to recorded steps; how far off they were on others is in docs/benchmarks.md.
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
  /// What blocks keep for the backward pass: stacks that the forward loop fills and the backward loop holds to its end
  /// (emit/loop_writer).
  int64_t kept = 0;
  /// Weights of blocks in bf16 that stay through both loops: converted once for all that reads them, and where ZeRO
  /// does not gather them again the copies that blocks keep for the backward pass.
  int64_t weight_copies = 0;
  int64_t outside_weights = 0;  // f32 copies of a chip's embedding and head, made where ZeRO 3 does not gather them
  // Beside these the largest of three parts of a step is alive.
  int64_t forward = 0;   // weights in bf16 that only the forward loop reads, sums of gradients of earlier micro-steps
  int64_t head = 0;      // logits, their gradient in the same bytes; the gradient of its weight in f32, the sums
  int64_t backward = 0;  // gradients, scores of one attention, values of some blocks; of several micro-steps logits
  /// What the plan has alive at its peak beyond these, where that is elsewhere, as in an update.
  int64_t other = 0;
  int64_t gaps = 0;  // between buffers
  int64_t code = 0;  // grows with the blocks that the program has text of

  /// Expected to be alive at once.
  int64_t alive() const;
  int64_t total() const { return alive() + gaps + code; }
  /// No less than arguments and code.
  ReservedRange range(const hw::Chip& device) const;
};

/// Whether what XLA reserves for such a step is known: not where the chip's file has no factors, blocks are no loop,
/// XLA places collectives itself, products are not in bf16, or sequences are longer than any recorded.
bool has_reserved_rule(const recipe::Recipe& recipe, const hw::Chip& device);

/// Of a step that was compiled for `target`; nothing where no rule is known, and for a pipeline. It compiles one
/// iteration, and where blocks recompute another.
std::optional<ReservedBytes> reserved_bytes(const recipe::Recipe& recipe, const plan::Plan& plan,
                                            const compile::Compiled& compiled, const schedule::Target& target,
                                            const hw::Chip& device);

/// What verdicts are made of: by the rule, else from the least to the most that the chip's file has for any step.
/// Nothing where it has no least, and for a pipeline.
std::optional<ReservedRange> reserved_range(const std::optional<ReservedBytes>& reserved,
                                            const compile::Compiled& compiled, const hw::Chip& device);

}  // namespace megacpp::fit
