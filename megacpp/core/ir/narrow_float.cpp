// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/narrow_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megacpp::ir {

float widened(uint32_t bits, const FloatFormat& format) {
  const uint32_t magnitude = bits & format.all_ones();
  const float sign = bits > format.all_ones() ? -1.0F : 1.0F;
  if (format.has_infinity && magnitude == format.infinity()) return sign * std::numeric_limits<float>::infinity();
  if (format.has_infinity ? magnitude > format.infinity() : magnitude == format.all_ones())
    return std::numeric_limits<float>::quiet_NaN();
  const uint32_t one = 1U << format.fraction_bits;
  const auto exponent = static_cast<int>(magnitude / one);
  const uint32_t fraction = exponent == 0 ? magnitude : magnitude % one + one;
  return sign * std::ldexp(static_cast<float>(fraction), std::max(exponent, 1) - format.bias() - format.fraction_bits);
}

uint32_t narrowed(float value, const FloatFormat& format) {
  const uint32_t sign = std::signbit(value) ? format.all_ones() + 1 : 0;
  if (std::isnan(value))
    return sign | (format.has_infinity ? format.infinity() | 1U << (format.fraction_bits - 1) : format.all_ones());
  const uint32_t too_large = format.has_infinity ? format.infinity() : format.all_ones();
  if (std::isinf(value)) return sign | too_large;
  const int exponent = std::max(value == 0 ? 1 - format.bias() : std::ilogb(value), 1 - format.bias());
  const double units =
      std::nearbyint(std::ldexp(std::fabs(static_cast<double>(value)), format.fraction_bits - exponent));
  // The leading one of a normal number counts as one exponent; what rounds up to two carries into it.
  const double bits = std::ldexp(exponent + format.bias() - 1, format.fraction_bits) + units;
  return sign | (bits >= too_large ? too_large : static_cast<uint32_t>(bits));
}

}  // namespace megacpp::ir
