// SPDX-License-Identifier: Apache-2.0
// Element types of tensors. Storage only: every kernel accumulates bf16 in f32.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace megacpp::ir {

enum class DType : uint8_t { f32, bf16, i32, pred };

std::string_view dtype_name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
int64_t dtype_bytes(DType dtype);
inline bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

/// bf16 is the upper half of an f32.
inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Round to nearest even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace megacpp::ir
