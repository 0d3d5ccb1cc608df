// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers (Philox4x32-10, Salmon et al., SC 2011). A number is a pure function of
// (seed, site name, global element index), so any layout draws the same numbers for the same tensor.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace megacpp::base {

class Philox {
 public:
  /// `site` names the tensor or place the numbers are for; it and the seed make the key.
  Philox(uint64_t seed, std::string_view site);

  /// The four 32-bit words of counter `index`.
  std::array<uint32_t, 4> words(uint64_t index) const;
  /// Element `index` of an endless stream of 32-bit words.
  uint32_t word(uint64_t index) const { return words(index / 4)[index % 4]; }
  /// Element `index` of an endless stream of uniforms in (0, 1).
  double uniform(uint64_t index) const;
  /// Element `index` of an endless stream of standard normals (Box-Muller on the word pair of the index).
  double normal(uint64_t index) const;

 private:
  uint32_t key0_;
  uint32_t key1_;
};

}  // namespace megacpp::base
