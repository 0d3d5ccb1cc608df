// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/row_launch.h"

#include <algorithm>
#include <bit>

namespace megacpp::runtime::cuda {

int64_t access_bytes(std::span<const int64_t> bytes) {
  int64_t access = 16;
  for (const int64_t each : bytes)
    while (each % access != 0) access /= 2;
  return access;
}

LaunchShape row_launch(int64_t rows, int64_t units) {
  constexpr int64_t kMostBlocksDown = 65'535;
  const uint32_t across = std::bit_ceil(static_cast<uint32_t>(std::clamp<int64_t>(units, 1, kRowThreads)));
  const uint32_t down = static_cast<uint32_t>(kRowThreads) / across;
  const int64_t over = units == 0 ? 0 : (rows + down - 1) / down;
  const int64_t along = std::min((units + across - 1) / across, kMostBlocksDown);
  return {.grid = {static_cast<uint32_t>(over), static_cast<uint32_t>(along), 1}, .block = {across, down, 1}};
}

LaunchShape flat_launch(int64_t threads) {
  return {.grid = {static_cast<uint32_t>((threads + kRowThreads - 1) / kRowThreads), 1, 1},
          .block = {static_cast<uint32_t>(kRowThreads), 1, 1}};
}

}  // namespace megacpp::runtime::cuda
