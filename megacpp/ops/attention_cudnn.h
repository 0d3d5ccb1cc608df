// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient as XLA's own calls of cuDNN's flash attention, which only its CUDA plugin knows.
#pragma once

#include "megacpp/base/decision.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::ops {

/// Whether cuDNN takes this `attention` or `attention_grad`: bf16, queries and keys in order, causal or without a mask,
/// and head dimensions its kernels are made for.
base::Decision fits_cudnn_attention(const NodeView& view);

/// q, k, v -> out, lse. The view must fit.
HloResults write_cudnn_attention(HloWriter& w, const HloArgs& args);
/// q, k, v, out, lse, dout -> dq, dk, dv. The view must fit.
HloResults write_cudnn_attention_grad(HloWriter& w, const HloArgs& args);

}  // namespace megacpp::ops
