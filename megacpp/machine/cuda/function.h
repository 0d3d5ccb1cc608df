// SPDX-License-Identifier: Apache-2.0
// A function of a loaded cubin, and how it is launched. Its only parameter is one trivially copyable struct by value:
// `extern "C" __global__ void name(const __grid_constant__ Params p)`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "megacpp/machine/cuda/driver.h"

namespace megacpp::runtime::cuda {

/// May use all the shared memory of a block that the device has (DeviceProperties::shared_bytes_per_block).
struct Function {
  const Driver* driver = nullptr;
  FunctionHandle* handle = nullptr;
  std::string name = {};
  int registers = 0;            // of a thread
  int static_shared_bytes = 0;  // of a block
  int local_bytes = 0;          // of a thread: spills and arrays
};

/// Sizes that a braced list leaves out count as 1.
struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  uint32_t cluster[3] = {1, 1, 1};
};

/// A kernel's parameters are at most 4 KB.
inline constexpr size_t kMaxParameterBytes = 4096;

/// The bytes of the struct are read before this returns.
void launch_with(const Function& function, const LaunchShape& shape, Stream* stream,
                 std::span<const std::byte> parameters);

/// Only enqueues. A grid of no blocks (grid[0] is 0) is not launched: it has nothing to do.
template <typename Params>
void launch(const Function& function, const LaunchShape& shape, Stream* stream, const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= kMaxParameterBytes);
  launch_with(function, shape, stream, std::as_bytes(std::span(&params, 1)));
}

}  // namespace megacpp::runtime::cuda
