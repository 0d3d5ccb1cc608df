// SPDX-License-Identifier: Apache-2.0
// How the wavelengths of RoPE are stretched for contexts longer than a model was trained with.
#pragma once

#include <array>
#include <cstdint>

#include "megacpp/core/base/words.h"

namespace megacpp::blocks {

enum class RopeScaling : uint8_t { none, linear, llama3, yarn };
constexpr auto words_of(RopeScaling) {
  return std::to_array<base::Word<RopeScaling>>(
      {{RopeScaling::none, "none", "not at all"},
       {RopeScaling::linear, "linear", "all of them"},
       {RopeScaling::llama3, "llama3", "slow ones, between slow and fast turns in part, as Llama 3.1 does"},
       {RopeScaling::yarn, "yarn",
        "the same by places of channels between those of slow and fast turns, and queries "
        "and keys grow by rope_amplitude (Peng et al. 2023)"}});
}

/// rope_fast_turns where it is not given.
constexpr double default_fast_turns(RopeScaling scaling) { return scaling == RopeScaling::yarn ? 32 : 4; }

}  // namespace megacpp::blocks
