// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/custom_call.h"

#include <algorithm>

#include "megacpp/program/emit/attention_cudnn.h"

namespace megacpp::emit {
namespace {

// All are of XLA's CUDA plugin.
constexpr CustomCall kCalls[] = {
    {.op = "attention", .takes = fits_cudnn_attention, .write = write_cudnn_attention},
    {.op = "attention_grad", .takes = fits_cudnn_attention, .write = write_cudnn_attention_grad},
};

}  // namespace

std::span<const CustomCall> custom_calls() { return kCalls; }

const CustomCall* find_custom_call(std::string_view op) {
  const auto* call =
      std::find_if(std::begin(kCalls), std::end(kCalls), [&](const CustomCall& c) { return c.op == op; });
  return call == std::end(kCalls) ? nullptr : call;
}

base::Decision is_emitted_whole(std::string_view op, const ops::NodeView& view, bool has_custom_calls) {
  if (!ops::op_def(op).is_composite() || ops::op_def(op).stablehlo) return base::Decision::yes();
  const CustomCall* call = has_custom_calls ? find_custom_call(op) : nullptr;
  return call != nullptr ? call->takes(view) : base::Decision::no("XLA gets its decomposition");
}

}  // namespace megacpp::emit
