// SPDX-License-Identifier: Apache-2.0
// What the compiler must know of a chip that is not here: the layout of tensors in its memory. Which ops stay whole is
// taken from `kernels`, a backend of ours; its scratch memory is left out, since that hardware has kernels of its own.
// Nor are buffers placed: another compiler will do it, so a plan counts what is alive. Where XLA is that compiler, on
// all TPUs and on GPUs without kernels of ours, there are no kernels but what it makes and calls: composites that it
// gets as loops are loops in the plan, with the temporaries that their rule says, and so have those that it gets
// unrolled.
#pragma once

#include <optional>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// What XLA is given where it compiles for a device, as the backend's own target says it for one that is here.
struct XlaForms {
  bool has_calls = false;  // of the device's libraries, for composites that they take (emit/custom_call.h)
  bool has_loops = true;   // not where XLA divides programs among chips itself (xla.placement: xla)
  /// Neither loops nor barriers stand between the passes, and its fusions of the backward pass make elementwise values
  /// of the forward pass again instead of reading them.
  bool fuses_across_passes = false;
};

/// `device` as the mesh sees it (hw::device_of). Without `xla` every composite has a kernel.
schedule::Target hardware_target(const hw::Chip& device, const schedule::Target& kernels,
                                 const std::optional<XlaForms>& xla);

}  // namespace megacpp::fit
