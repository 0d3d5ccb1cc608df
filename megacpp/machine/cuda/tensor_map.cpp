// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/tensor_map.h"

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kNoInterleave = 0, kPromoteTo256Bytes = 3, kZerosOutside = 0;  // as the driver has them
constexpr size_t kMaxRank = 5;

}  // namespace

TensorMap make_tensor_map(const Driver& driver, const TiledTensor& tensor) {
  const size_t rank = tensor.shape.size();
  MEGACPP_CHECK(rank > 0 && rank <= kMaxRank && tensor.strides.size() + 1 == rank && tensor.box.size() == rank)
      << "a tensor of " << rank << " dimensions has " << tensor.strides.size() << " strides and a tile of "
      << tensor.box.size();
  const std::vector<uint32_t> steps(rank, 1);
  TensorMap map = {};
  driver.tensor_map_encode_tiled(&map, static_cast<int>(tensor.type), static_cast<uint32_t>(rank),
                                 reinterpret_cast<void*>(tensor.address), tensor.shape.data(), tensor.strides.data(),
                                 tensor.box.data(), steps.data(), kNoInterleave, static_cast<int>(tensor.swizzle),
                                 kPromoteTo256Bytes, kZerosOutside);
  return map;
}

}  // namespace megacpp::runtime::cuda
