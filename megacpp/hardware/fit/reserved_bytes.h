// SPDX-License-Identifier: Apache-2.0
// What XLA is expected to reserve on a chip for a training step: what is alive at once, as the compiler's own lists of
// buffers have it, the gaps between these buffers, and code. One rule for blocks in loops and one for unrolled ones,
// which is coarser: there XLA orders all blocks' work as it likes. Numbers of the chip's file were fitted to recorded
// steps; how far off they were on others is in docs/benchmarks.md.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/hardware/fit/fit_report.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// Ranges are as much wider at both ends, or at the upper by the largest buffer: what no term has, or has too much of,
/// is a large part of a small step.
inline constexpr int64_t kSmallBuffers = int64_t{128} << 20;

struct ReservedBytes {
  int64_t arguments = 0;  // state and batch (emit/step)
  /// f32 copies of weights: in loops of embedding and head where they are not gathered (ZeRO 3), unrolled where the
  /// update puts them together (ZeRO 1 and 2), of all whose parts are whole tiles.
  int64_t weights_in_f32 = 0;
  // Beside these either an update is alive, or what both passes need and the largest of their three parts.
  /// What blocks keep for the backward pass: in loops stacks that the forward loop fills and the backward loop holds to
  /// its end (emit/loop_writer), unrolled what fusions do not make again.
  int64_t kept = 0;
  /// Weights in bf16 that stay through both passes: converted once for all that reads them, in loops also the copies
  /// that blocks keep where ZeRO does not gather them again.
  int64_t weights_in_bf16 = 0;
  int64_t forward = 0;  // weights in bf16 that only the forward loop reads, sums of gradients of earlier micro-steps
  /// Logits, of several sequences a chip their gradient too; that of its weight in f32, unrolled the larger of these
  /// two, neither where it is added to a whole sum; the sums.
  int64_t head = 0;
  /// Gradients or sums, scores of one attention, logits where the head's work comes behind it; in loops values of some
  /// blocks.
  int64_t backward = 0;
  /// When nothing is kept any more: gradients, in loops also what the update makes of all that is outside blocks before
  /// any of it replaces the old, unrolled the logits; nothing there where no other chip adds to gradients.
  int64_t update = 0;
  /// What the plan has alive at its peak beyond these, where that is elsewhere, as in an update.
  int64_t other = 0;
  int64_t gaps = 0;               // between buffers
  int64_t code = 0;               // grows with the blocks that the program has text of
  int64_t uncertain = 0;          // more or less in the backward pass
  int64_t uncertain_in_both = 0;  // more or less that both passes hold
  /// The largest buffer, the gradient of the head's weight in f32: as much may lie idle between buffers, which is a
  /// large part of a small step.
  int64_t largest = 0;
  double off_most = 0;  // how far off all this may be beside that, as a part of it

  /// Expected to be alive at once.
  int64_t alive() const;
  int64_t total() const { return alive() + gaps + code; }
  /// No less than arguments and code.
  ReservedRange range() const;
};

/// Whether what XLA reserves for such a step is known: not where the chip's file has no factors, XLA places collectives
/// itself, products are not in bf16, or unrolled blocks have sequences longer than any that was recorded.
bool has_reserved_rule(const recipe::Recipe& recipe, const hw::Chip& device);
/// How far off the rule may be, as a part of what it expects.
double reserved_off_most(const recipe::Recipe& recipe, const hw::Chip& device);
/// Of a step with such a rule: of the blocks that the program has text of, each once.
int64_t reserved_code(const recipe::Recipe& recipe, const hw::Chip& device);

/// Of a step that was compiled for `target`; nothing where no rule is known, and for a pipeline. It compiles the blocks
/// that repeat once more; twice where those of a loop recompute, or unrolled ones have experts.
std::optional<ReservedBytes> reserved_bytes(const plan::PlannedRecipe& planned, const compile::Compiled& compiled,
                                            const schedule::Target& target, const hw::Chip& device);

/// The terms with what follows from them and the plan: what the plan has alive beyond them, gaps and code.
ReservedBytes with_gaps_and_code(ReservedBytes terms, const recipe::Recipe& recipe, const memory::MemoryPlan& memory,
                                 const hw::Chip& device);

/// Whether steps without a rule have a range: not where the chip's file has no least, and not on GPUs, whose plans have
/// one of their own (ChipGroup). With it verdicts count with the least code that was seen.
bool has_reserved_range(const hw::Chip& device);

/// What verdicts are made of: by the rule, else the plan, from the least to the most that the chip's file has for any
/// step. Nothing without has_reserved_range(), and for a pipeline.
std::optional<ReservedRange> reserved_range(const std::optional<ReservedBytes>& reserved, const recipe::Recipe& recipe,
                                            const compile::Compiled& compiled, const hw::Chip& device);

}  // namespace megacpp::fit
