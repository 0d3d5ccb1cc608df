// SPDX-License-Identifier: Apache-2.0
// Narrow storage around f32 kernels: operands are widened into the workspace before the kernel runs, results narrowed
// after.
#pragma once

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {

/// The kernel made ready for this node, whatever the dtypes of its tensors.
Prepared prepare_any_storage(const Kernel& kernel, const ops::NodeView& view, int threads);

}  // namespace megacpp::runtime::cpu
