// SPDX-License-Identifier: Apache-2.0
// What ops with SwiGLU inside a product have in common, whichever product it is: h = silu(gate) * up with
// `keep_products` of its operands, and the gradients of gate and up with `make_h` of h.
#pragma once

#include <span>
#include <vector>

#include "megacpp/ops/builder.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::ops {

/// h, and gate and up where they are kept, each like `product`.
Types swiglu_types(const ir::TensorType& product, const ir::Attrs& attrs);
std::vector<ir::ValueId> swiglu_parts(Builder& builder, ir::ValueId gate, ir::ValueId up, const ir::Attrs& attrs);
void reference_swiglu_parts(const Tensor& gate, const Tensor& up, std::span<Tensor> results);
/// Of two products and h.
Cost swiglu_cost(const NodeView& view);

/// dgate, dup, and h where it is made, each like `product`.
Types swiglu_grad_types(const ir::TensorType& product, const ir::Attrs& attrs);
/// In the order of the gradients' own rules, so that a program has the same bits with the op and without.
std::vector<ir::ValueId> swiglu_grad_parts(Builder& builder, ir::ValueId dh, ir::ValueId gate, ir::ValueId up,
                                           const ir::Attrs& attrs);
void reference_swiglu_grad_parts(const Tensor& dh, const Tensor& gate, const Tensor& up, std::span<Tensor> results);
/// Of one product and what is made of it.
Cost swiglu_grad_cost(const NodeView& view);

inline constexpr const char* kSwigluHasNoGrad = "made by the scheduler, after gradients are taken";

}  // namespace megacpp::ops
