// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/hlo_product.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "megacpp/machine/xla/pjrt/protobuf_reader.h"

namespace megacpp::runtime::pjrt {
namespace {

constexpr int64_t kLargest = int64_t{1} << 31;       // of a number of a window; more is damage
constexpr int64_t kMostMeetings = int64_t{1} << 18;  // of a window's places or an output's, whichever are fewer

double size_of(const Dims& dims, int64_t dim, const ProtobufReader& reader) {
  if (dim < 0 || dim >= static_cast<int64_t>(dims.size())) reader.fail("dimension " + std::to_string(dim));
  return static_cast<double>(dims[static_cast<size_t>(dim)]);
}

WindowDim read_window_dim(std::string_view bytes) {
  ProtobufReader reader(bytes, "WindowDimension");
  WindowDim dim;
  while (reader.next()) {
    if (reader.field() == 1) dim.size = reader.integer();
    if (reader.field() == 2) dim.stride = reader.integer();
    if (reader.field() == 3) dim.padding_low = reader.integer();
    if (reader.field() == 5) dim.window_dilation = reader.integer();
    if (reader.field() == 6) dim.base_dilation = reader.integer();
  }
  for (const int64_t number : {dim.size, dim.stride, dim.window_dilation, dim.base_dilation})
    if (number < 1 || number > kLargest) reader.fail("a window of " + std::to_string(number));
  if (dim.padding_low > kLargest || dim.padding_low < -kLargest) reader.fail("too much padding");
  return dim;
}

struct ConvolutionDims {
  int64_t input_batch = 0;
  int64_t input_feature = 0;
  int64_t output_feature = 0;
  std::vector<int64_t> input_spatial;
  std::vector<int64_t> output_spatial;
};

ConvolutionDims read_convolution_dims(std::string_view bytes) {
  ProtobufReader reader(bytes, "ConvolutionDimensionNumbers");
  ConvolutionDims dims;
  while (reader.next()) {
    if (reader.field() == 7) dims.input_batch = reader.integer();
    if (reader.field() == 8) dims.input_feature = reader.integer();
    if (reader.field() == 10) dims.output_feature = reader.integer();
    if (reader.field() == 11) reader.append_integers(dims.input_spatial);
    if (reader.field() == 12) reader.append_integers(dims.output_spatial);
  }
  return dims;
}

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }

/// x with a * x = 1 modulo m; the two have no common divisor.
int64_t inverse_modulo(int64_t a, int64_t m) {
  int64_t old_rest = a, rest = m, old_x = 1, x = 0;
  while (rest != 0) {
    const int64_t times = old_rest / rest;
    old_rest = std::exchange(rest, old_rest - times * rest);
    old_x = std::exchange(x, old_x - times * x);
  }
  return modulo(old_x, m);
}

}  // namespace

// Places of the window and of the output are alike to what is counted, so the fewer of the two are gone through: a
// weight's gradient has a window as long as the sequence and an output as short as the kernel. For each place of the
// window, the places of the output that meet an element are evenly spaced: from the first on one in every `period`.
int64_t window_products(const WindowDim& window, int64_t input, int64_t output) {
  if (output < window.size)
    return window_products({.size = output,
                            .stride = window.window_dilation,
                            .padding_low = window.padding_low,
                            .window_dilation = window.stride,
                            .base_dilation = window.base_dilation},
                           input, window.size);
  const int64_t common = std::gcd(window.stride, window.base_dilation);
  const int64_t period = window.base_dilation / common;
  const int64_t inverse = inverse_modulo(window.stride / common, period);
  const int64_t last = (input - 1) * window.base_dilation;  // element of the dilated input
  int64_t met = 0;
  for (int64_t k = 0; k < window.size; ++k) {
    const int64_t shift = k * window.window_dilation - window.padding_low;
    if (shift % common != 0) continue;
    const int64_t from = std::max<int64_t>(0, -floor_div(shift, window.stride));
    const int64_t to = std::min(output - 1, floor_div(last - shift, window.stride));
    const int64_t rest = modulo(modulo(-shift / common, period) * inverse, period);  // of a place that meets one
    const int64_t first = from + modulo(rest - from, period);
    if (first <= to) met += (to - first) / period + 1;
  }
  return met;
}

double dot_flops(std::string_view instruction, const Dims& lhs, const Dims& result) {
  ProtobufReader reader(instruction, "HloInstructionProto");
  double flops = 2;
  for (const int64_t size : result) flops *= static_cast<double>(size);
  while (reader.next()) {
    if (reader.field() != 30) continue;
    ProtobufReader numbers(reader.bytes(), "DotDimensionNumbers");
    std::vector<int64_t> contracted;
    while (numbers.next())
      if (numbers.field() == 1) numbers.append_integers(contracted);
    for (const int64_t dim : contracted) flops *= size_of(lhs, dim, numbers);
  }
  return flops;
}

double convolution_flops(std::string_view instruction, const Dims& lhs, const Dims& result) {
  ProtobufReader reader(instruction, "HloInstructionProto");
  std::vector<WindowDim> window;
  ConvolutionDims dims;
  double groups = 1;
  while (reader.next()) {
    if (reader.field() == 15) {
      ProtobufReader all(reader.bytes(), "Window");
      while (all.next())
        if (all.field() == 1) window.push_back(read_window_dim(all.bytes()));
    }
    if (reader.field() == 16) dims = read_convolution_dims(reader.bytes());
    if (reader.field() == 50 || reader.field() == 58)
      groups *= static_cast<double>(std::clamp<int64_t>(reader.integer(), 1, kLargest));
  }
  if (window.size() != dims.input_spatial.size() || window.size() != dims.output_spatial.size())
    reader.fail("a window of other dimensions than the convolution");
  double flops = 2 * size_of(lhs, dims.input_batch, reader) * size_of(lhs, dims.input_feature, reader) *
                 size_of(result, dims.output_feature, reader) / groups;
  for (size_t i = 0; i < window.size(); ++i) {
    const double input = size_of(lhs, dims.input_spatial[i], reader);
    const double output = size_of(result, dims.output_spatial[i], reader);
    if (std::max(input, output) > static_cast<double>(kLargest)) reader.fail("a dimension larger than any");
    if (std::min(static_cast<double>(window[i].size), output) > static_cast<double>(kMostMeetings))
      reader.fail("a window of " + std::to_string(window[i].size));
    flops *= static_cast<double>(window_products(window[i], static_cast<int64_t>(input), static_cast<int64_t>(output)));
  }
  return flops;
}

}  // namespace megacpp::runtime::pjrt
