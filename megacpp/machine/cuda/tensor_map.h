// SPDX-License-Identifier: Apache-2.0
// How the tensor memory accelerator of Hopper sees a tensor: a descriptor of 128 bytes that a kernel's parameter struct
// holds by value.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/machine/cuda/driver.h"

namespace megacpp::runtime::cuda {

/// CUtensorMap. Device code sees the same bytes as `CUtensorMap` of cuda.h, or as its own struct of that size.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

/// Numbers as the driver has them (CUtensorMapDataType, CUtensorMapSwizzle).
enum class MapType : int { u8 = 0, i32 = 3, f32 = 7, bf16 = 9 };
enum class Swizzle : int { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };

/// Dimensions with the innermost first.
struct TiledTensor {
  MapType type = MapType::bf16;
  Address address = 0;                 // of 16 bytes' alignment
  std::vector<uint64_t> shape = {};    // elements
  std::vector<uint64_t> strides = {};  // bytes, from the second dimension on; multiples of 16
  std::vector<uint32_t> box = {};      // elements of a tile
  Swizzle swizzle = Swizzle::none;
};

/// Elements outside the tensor read as zeros and are not written. Made on the host: nothing is enqueued.
TensorMap make_tensor_map(const Driver& driver, const TiledTensor& tensor);

}  // namespace megacpp::runtime::cuda
