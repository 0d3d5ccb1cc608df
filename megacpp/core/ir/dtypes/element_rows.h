// SPDX-License-Identifier: Apache-2.0
// Loops over elements at any address, for the casts of a record. Plain, so that compilers vectorise them on every
// target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace megacpp::ir {

/// `one` makes a float of a T.
template <typename T, auto one>
void row_to_f32(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = one(element);
  }
}

/// `one` makes a T of a float.
template <typename T, auto one>
void row_from_f32(const float* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T element = one(from[i]);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &element, sizeof(T));
  }
}

}  // namespace megacpp::ir
