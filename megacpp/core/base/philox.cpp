// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/philox.h"

#include <cmath>
#include <numbers>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace megacpp::base {
namespace {

double to_unit_interval(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace

Philox::Philox(uint64_t seed, std::string_view site) {
  const uint64_t key = XXH64(site.data(), site.size(), seed);
  key0_ = static_cast<uint32_t>(key);
  key1_ = static_cast<uint32_t>(key >> 32);
}

std::array<uint32_t, 4> Philox::words(uint64_t index, uint32_t stream) const {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream, 0};
  uint32_t k0 = key0_;
  uint32_t k1 = key1_;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

double Philox::uniform(uint64_t index, uint32_t stream) const { return to_unit_interval(word(index, stream)); }

double Philox::normal(uint64_t index, uint32_t stream) const {
  const std::array<uint32_t, 4> w = words(index / 4, stream);
  const size_t pair = (index % 4) & ~size_t{1};
  const double radius = std::sqrt(-2.0 * std::log(to_unit_interval(w[pair])));
  const double angle = 2.0 * std::numbers::pi * to_unit_interval(w[pair + 1]);
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace megacpp::base
