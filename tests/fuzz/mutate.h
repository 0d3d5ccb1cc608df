// SPDX-License-Identifier: Apache-2.0
// New inputs from those of a corpus: bytes, numbers, words and lines changed, removed, repeated or taken from another
// input. The same seed gives the same inputs on every machine, so that a case is repeated by its number alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"

namespace megacpp::fuzz {

inline constexpr size_t kLargestInput = size_t{1} << 18;

/// Random numbers of one case (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  /// Of case `number` of a target.
  Random(uint64_t seed, std::string_view target, uint64_t number);

  uint64_t next();
  /// 0 to count - 1; count is positive.
  size_t below(size_t count) { return static_cast<size_t>(next() % count); }

 private:
  uint64_t state_;
};

/// One to eight changes of an input; `other` is one of the same corpus to take parts from. At most kLargestInput bytes.
Input mutate(Input input, Bytes other, Random& random);

/// An input of the corpus, changed. Without a corpus the changes start from nothing.
Input mutate_any(const std::vector<Input>& corpus, Random& random);

}  // namespace megacpp::fuzz
