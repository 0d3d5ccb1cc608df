// SPDX-License-Identifier: Apache-2.0
// What several tests need of reference tensors: random values, bytes as kernels store them, comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/ir/graph.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/tensor.h"

namespace megacpp::testing_support {

inline ops::Tensor random_tensor(const ir::TensorType& type, const std::string& name, double low = -1.0,
                                 double high = 1.0) {
  ops::Tensor tensor = ops::Tensor::zeros(type);
  const base::Philox random(11, name);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = low + (high - low) * random.uniform(static_cast<uint64_t>(i));
    tensor[i] = ir::rounded(type.dtype, ir::is_float(type.dtype) ? value : std::floor(value));
  }
  return tensor;
}

/// Random values for every input of the graph; integers are drawn from [0, integers).
inline std::map<std::string, ops::Tensor> random_inputs(const ir::Graph& graph, const std::string& site,
                                                        double integers = 2) {
  std::map<std::string, ops::Tensor> inputs;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = node.attrs.text("name");
    const ir::TensorType& type = graph.type(node.results[0]);
    inputs[name] =
        ir::is_float(type.dtype) ? random_tensor(type, site + name) : random_tensor(type, site + name, 0, integers);
  }
  return inputs;
}

inline void encode(const ops::Tensor& tensor, std::byte* to) {
  const int64_t width = ir::dtype_bytes(tensor.type.dtype);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const uint64_t bits = ir::bits_of(tensor.type.dtype, tensor[i]);
    std::memcpy(to + i * width, &bits, static_cast<size_t>(width));
  }
}

inline ops::Tensor decode(const ir::TensorType& type, const std::byte* from) {
  const int64_t width = ir::dtype_bytes(type.dtype);
  ops::Tensor tensor = ops::Tensor::zeros(type);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, from + i * width, static_cast<size_t>(width));
    tensor[i] = ir::number_of(type.dtype, bits);
  }
  return tensor;
}

inline std::vector<std::byte> encoded(const ops::Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type.bytes()));
  encode(tensor, bytes.data());
  return bytes;
}

/// A state tensor of the first chip.
template <typename Executable>
ops::Tensor state_of(const Executable& executable, const std::string& name, const ir::TensorType& type) {
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  executable.read_state(name, 0, bytes);
  return decode(type, bytes.data());
}

/// The tolerance is relative to the largest finite element. Integers must be equal.
inline ::testing::AssertionResult is_close(const ops::Tensor& got, const ops::Tensor& wanted, double tolerance) {
  if (!(got.type == wanted.type))
    return ::testing::AssertionFailure() << "type " << to_string(got.type) << ", wanted " << to_string(wanted.type);
  double scale = 1e-6;
  for (const double element : wanted.data)
    if (std::isfinite(element)) scale = std::max(scale, std::fabs(element));
  const double allowed = ir::is_float(wanted.type.dtype) ? tolerance * scale : 0.0;
  for (int64_t i = 0; i < wanted.elements(); ++i) {
    const bool equal = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]));
    if (!equal && !(std::fabs(got[i] - wanted[i]) <= allowed))
      return ::testing::AssertionFailure() << "element " << i << " of " << to_string(wanted.type) << " is " << got[i]
                                           << ", wanted " << wanted[i] << " within " << allowed;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace megacpp::testing_support
