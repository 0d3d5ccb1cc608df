// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient as XLA's own calls of cuDNN's flash attention, which only its CUDA plugin has: two records
// of custom_call.h.
#pragma once

#include "megacpp/core/base/decision.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::emit {

/// Whether cuDNN takes this `attention` or `attention_grad`: bf16, queries and keys in order, causal or without a mask,
/// and head dimensions its kernels are made for.
base::Decision fits_cudnn_attention(const ops::NodeView& view);

/// q, k, v -> out, lse. The view must fit.
ops::HloResults write_cudnn_attention(ops::HloWriter& w, const ops::HloArgs& args);
/// q, k, v, out, lse, dout -> dq, dk, dv. The view must fit.
ops::HloResults write_cudnn_attention_grad(ops::HloWriter& w, const ops::HloArgs& args);

}  // namespace megacpp::emit
