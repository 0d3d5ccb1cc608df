// SPDX-License-Identifier: Apache-2.0
// What XLA for TPUs is expected to reserve on a chip for a training step: what is alive at once, as the compiler's own
// lists of buffers have it, the gaps between these buffers, and code. One rule for blocks in loops and one for unrolled
// ones, which is coarser: there XLA orders all blocks' work as it likes. How far off they were on recorded steps is in
// docs/benchmarks.md; tests/v6e_plan holds them against all of these.
#pragma once

#include <optional>

#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/machine/xla/step_parts.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::runtime::xla {

/// Tokens of the steps that the rule was made from, at most. In loops it holds beyond, but not as closely.
inline constexpr int64_t kLongestSequence = 4096;

/// Ranges are as much wider at both ends, or at the upper by the largest buffer: what no term has, or has too much of,
/// is a large part of a small step.
inline constexpr int64_t kSmallBuffers = int64_t{128} << 20;

/// Whether the rule holds for such a step: not where nobody held it against steps for the chip, XLA places collectives
/// itself, products are not in bf16, experts are dropless, or unrolled blocks have sequences longer than any recorded.
bool has_tpu_rule(const recipe::Recipe& recipe, const hw::Chip& device);

/// Of a step with the rule. Nothing where a deep model's numbers are on no lines.
std::optional<fit::Reservation> reserve_by_tpu_rule(const fit::StepProgram& step, const hw::Chip& device);

/// What the rule makes of the parts of a step; `blocks` are those that its program has text of.
struct TpuStep {
  StepParts parts = {};
  int64_t blocks = 0;
  double off_most = 0;  // how far off what is expected may be, as a part of it
};
fit::Reservation tpu_reservation(const TpuStep& step);

}  // namespace megacpp::runtime::xla
