// SPDX-License-Identifier: Apache-2.0
// Floating-point formats below 32 bits, by the width of their parts: IEEE 754's, and those that give the exponent of
// infinities to numbers, as e4m3 does.
#pragma once

#include <cstdint>

namespace megacpp::ir {

struct FloatFormat {
  int exponent_bits = 0;
  int fraction_bits = 0;
  bool has_infinity = true;  // else all ones are no number, and all else is one

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t all_ones() const { return (1U << (exponent_bits + fraction_bits)) - 1; }
  uint32_t infinity() const { return all_ones() - ((1U << fraction_bits) - 1); }
};

float widened(uint32_t bits, const FloatFormat& format);
/// Rounded to nearest even. What is too large becomes infinite, or no number where there is no infinity.
uint32_t narrowed(float value, const FloatFormat& format);

}  // namespace megacpp::ir
