// SPDX-License-Identifier: Apache-2.0
// Launches of kernels that copy rows: how long an access may be, and how blocks are laid over rows.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/machine/cuda/function.h"

namespace megacpp::runtime::cuda {

/// Threads of a block that works on rows.
inline constexpr int64_t kRowThreads = 256;

/// The longest access of 16, 8, 4, 2 or 1 bytes that divides all of these numbers of bytes.
int64_t access_bytes(std::span<const int64_t> bytes);

/// Blocks of kRowThreads: x along a row of `units`, y over rows; block x over rows, block y along them where a row is
/// longer than a block. Empty where there is nothing.
LaunchShape row_launch(int64_t rows, int64_t units);

/// Enough blocks of kRowThreads for so many threads.
LaunchShape flat_launch(int64_t threads);

}  // namespace megacpp::runtime::cuda
