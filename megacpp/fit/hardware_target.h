// SPDX-License-Identifier: Apache-2.0
// What the compiler must know of a chip that is not here: the layout of tensors in its memory. Which ops stay whole is
// taken from `kernels`, a backend of ours; its scratch memory is left out, since that hardware has kernels of its own.
// Nor are buffers placed: another compiler will do it, so a plan counts what is alive. TPUs have no kernels but what
// XLA makes: composites that XLA gets as loops are loops in the plan, with the temporaries that their rule says, and so
// have those that it gets unrolled.
#pragma once

#include "megacpp/hw/chip.h"
#include "megacpp/schedule/target.h"

namespace megacpp::fit {

/// `device` as the mesh sees it (hw::device_of).
schedule::Target hardware_target(const hw::Chip& device, const schedule::Target& kernels);

}  // namespace megacpp::fit
