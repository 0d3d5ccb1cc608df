// SPDX-License-Identifier: Apache-2.0
// How bytes are made where a device takes them from, rather than copied there.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace megacpp::runtime {

/// Writes all bytes of a piece, which begins at byte `begin` of what is filled. Pieces come one behind the other, on
/// the thread that asked, each of whole cache lines but for the last.
using FillPiece = std::function<void(size_t begin, std::span<std::byte> piece)>;

}  // namespace megacpp::runtime
