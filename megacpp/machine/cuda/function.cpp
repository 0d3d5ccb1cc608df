// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/function.h"

#include <cstring>

namespace megacpp::runtime::cuda {
namespace {

constexpr int kClusterDimension = 4;  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION

// Sizes that were left out are zeros in a braced list.
constexpr uint32_t at_least_one(uint32_t size) { return size == 0 ? 1 : size; }

}  // namespace

void launch_with(const Function& function, const LaunchShape& shape, Stream* stream,
                 std::span<const std::byte> parameters) {
  if (shape.grid[0] == 0) return;
  const uint32_t sizes[3] = {at_least_one(shape.cluster[0]), at_least_one(shape.cluster[1]),
                             at_least_one(shape.cluster[2])};
  LaunchAttribute cluster{.id = kClusterDimension, .padding = {}, .value = {}};
  std::memcpy(cluster.value, sizes, sizeof sizes);
  LaunchConfig config{
      .grid = {shape.grid[0], at_least_one(shape.grid[1]), at_least_one(shape.grid[2])},
      .block = {at_least_one(shape.block[0]), at_least_one(shape.block[1]), at_least_one(shape.block[2])},
      .shared_bytes = shape.shared_bytes,
      .stream = stream,
      .attributes = &cluster,
      .attribute_count = sizes[0] * sizes[1] * sizes[2] == 1 ? 0U : 1U};
  // The driver knows how many parameters a function has (one) and at which alignment it wants them: structs with tensor
  // maps do not begin where a buffer of parameters does. Recorders of launches find the size behind it.
  size_t bytes = parameters.size();
  void* arguments[] = {const_cast<std::byte*>(parameters.data()), &bytes};
  function.driver->launch_kernel(&config, function.handle, arguments, nullptr);
}

}  // namespace megacpp::runtime::cuda
