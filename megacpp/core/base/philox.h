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

  /// The four 32-bit words of counter `index`. Each `stream` has its own: a training step, say.
  std::array<uint32_t, 4> words(uint64_t index, uint32_t stream = 0) const;
  /// Element `index` of an endless stream of 32-bit words.
  uint32_t word(uint64_t index, uint32_t stream = 0) const { return words(index / 4, stream)[index % 4]; }
  /// Element `index` of an endless stream of uniforms in (0, 1).
  double uniform(uint64_t index, uint32_t stream = 0) const;
  /// Element `index` of an endless stream of standard normals (Box-Muller on the word pair of the index).
  double normal(uint64_t index, uint32_t stream = 0) const;

  // What makes the words, for those who write it in another language.
  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t key0() const { return key0_; }
  uint32_t key1() const { return key1_; }

 private:
  uint32_t key0_;
  uint32_t key1_;
};

}  // namespace megacpp::base
