// SPDX-License-Identifier: Apache-2.0
// The multiplications and additions of one dot or convolution, as XLA's own cost analysis counts them: a position where
// the window meets padding costs nothing. TPU compilers write every product as a convolution.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace megacpp::runtime::pjrt {

using Dims = std::vector<int64_t>;

/// `instruction` is a serialized HloInstructionProto; the shapes are those of its first operand and its result.
double dot_flops(std::string_view instruction, const Dims& lhs, const Dims& result);
double convolution_flops(std::string_view instruction, const Dims& lhs, const Dims& result);

/// One dimension of a convolution's window; names as in xla_data.proto.
struct WindowDim {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding_low = 0;
  int64_t window_dilation = 1;
  int64_t base_dilation = 1;
};
/// Pairs of a place in the output and a place in the window that meet an element of the input.
int64_t window_products(const WindowDim& window, int64_t input, int64_t output);

}  // namespace megacpp::runtime::pjrt
