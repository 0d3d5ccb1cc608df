// SPDX-License-Identifier: Apache-2.0
// The float operands and results of a node as launches hand them to device code, and which variant of a kernel takes
// them: variants are named after what they know of the dtypes, as Storage of float_access.cuh.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/float_array.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

/// One of a node's operands, or of its results.
struct Floats {
  size_t index = 0;
  bool is_bf16 = false;

  FloatArray of(std::span<const Address> addresses) const {
    return {addresses[index], is_bf16 ? uint64_t{1} : uint64_t{0}};
  }
};

inline Floats floats_at(const ops::Types& types, size_t index) {
  const ir::DType dtype = types[index].dtype;
  MEGACPP_CHECK(dtype == ir::DType::bf16 || !ir::is_narrow(dtype)) << "no kernels of " << ir::dtype_name(dtype);
  return {index, dtype == ir::DType::bf16};
}

/// What all arrays of a kernel are; any: some the one, some the other.
enum class Storage : uint8_t { f32, bf16, any };
inline Storage storage_of(std::initializer_list<Floats> arrays) {
  const auto is_bf16 = [](const Floats& array) { return array.is_bf16; };
  if (std::all_of(arrays.begin(), arrays.end(), is_bf16)) return Storage::bf16;
  return std::none_of(arrays.begin(), arrays.end(), is_bf16) ? Storage::f32 : Storage::any;
}
/// In the names of device functions.
inline std::string_view storage_name(Storage storage) {
  return std::array<std::string_view, 3>{"f32", "bf16", "any"}[static_cast<size_t>(storage)];
}

inline int64_t ceil_div(int64_t value, int64_t by) { return (value + by - 1) / by; }

}  // namespace megacpp::runtime::cuda
