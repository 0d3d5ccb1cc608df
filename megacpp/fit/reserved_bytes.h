// SPDX-License-Identifier: Apache-2.0
// What XLA is expected to reserve on a chip for a training step whose blocks run in loops: more than is alive at the
// peak. Every term is something the emitted step holds; how many bytes XLA takes for one of ours is in the chip's file,
// fitted to recorded steps that compilers answered for. Not a bound: how far off it was is in docs/benchmarks.md. These
// steps had one micro-step of 2048 or 4096 tokens; one of them recomputed, with ZeRO 3. Where a step recomputes with
// less and XLA sums gradients by all-reduces, whole gradients may be stacked, which no term has.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/fit/estimate.h"

namespace megacpp::fit {

struct ReservedBytes {
  int64_t arguments = 0;  // state and batch (emit/step)
  /// What blocks keep for the backward pass: stacks that the forward loop fills and the backward loop holds to its end
  /// (emit/loop_writer), in XLA's layouts.
  int64_t kept = 0;
  int64_t weight_copies = 0;  // weights in bf16 among these stacks, where no gather makes them again
  /// What blocks of one iteration would keep if nothing were recomputed: its members of the stacks, taken out or not
  /// yet put in, and what it makes again, all in one body that XLA schedules as a whole.
  int64_t iteration = 0;
  int64_t gradients = 0;  // stacks that are whole from the first iteration of the backward loop on
  int64_t outside = 0;    // of the head: the gradient of the logits is alive through the backward loop
  int64_t code = 0;       // grows with the blocks that the program has text of
  /// What the plan has alive at its peak beyond these, where that is elsewhere, as in an update: no less is reserved.
  int64_t other = 0;

  int64_t total() const { return arguments + kept + weight_copies + iteration + gradients + outside + code + other; }
};

/// Of the chip that is worst off. Nothing where no rule is known: the chip's file has none, blocks are no loop, XLA
/// places collectives itself, products are not in bf16, or the layout is a pipeline. Where blocks recompute it compiles
/// one iteration more.
std::optional<ReservedBytes> reserved_bytes(const Estimate& estimate, const Assumptions& assumptions);

}  // namespace megacpp::fit
