// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/source.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/philox.h"

namespace megacpp::data {
namespace {

// A Feistel network over 2 x half bits: any round function makes it a permutation.
uint64_t permuted(const base::Philox& random, uint32_t epoch, uint64_t index, int half) {
  constexpr uint64_t kRounds = 4;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t left = index >> half, right = index & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = random.words((round << 32) | right, epoch)[0] & mask;
    const uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return (left << half) | right;
}

}  // namespace

Parts parts_of(int64_t units, double held_out) {
  const auto kept = static_cast<int64_t>(std::floor(static_cast<double>(units) * held_out));
  return {.training = units - kept, .held_out = kept};
}

int64_t shuffled(uint64_t seed, int64_t epoch, int64_t index, int64_t size) {
  MEGACPP_CHECK(index >= 0 && index < size && size <= int64_t{1} << 60) << index << " of " << size;
  const base::Philox random(seed, "data.order");
  const int half = std::max(1, (static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))) + 1) / 2);
  auto place = static_cast<uint64_t>(index);
  do {  // walks its cycle until it is inside again, a few steps at most on average
    place = permuted(random, static_cast<uint32_t>(epoch), place, half);
  } while (place >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(place);
}

}  // namespace megacpp::data
