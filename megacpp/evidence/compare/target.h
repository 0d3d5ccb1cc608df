// SPDX-License-Identifier: Apache-2.0
// Whether what a change brought on one shape it brings on the target shape too: two comparisons of the same axis.
#pragma once

#include <cstdint>
#include <string>

#include "megacpp/core/base/words.h"
#include "megacpp/evidence/compare/comparison.h"

namespace megacpp::compare {

enum class Survival : uint8_t {
  survived,   // the same direction was found on the target
  lost,       // on the target it is less than half of it, or nothing, at the stated confidence
  reversed,   // the other direction was found
  undecided,  // the target's interval still holds both
  no_gain,    // there was nothing to survive
};
constexpr auto words_of(Survival /*survival*/) {
  return std::to_array<base::Word<Survival>>({{Survival::survived, "survived"},
                                              {Survival::lost, "lost"},
                                              {Survival::reversed, "reversed"},
                                              {Survival::undecided, "undecided"},
                                              {Survival::no_gain, "no gain"}});
}

struct TargetAnswer {
  Survival survival = Survival::undecided;
  std::string sentence = {};
};

/// Both comparisons have a result. E4001 where they are not of one axis with the same values, E1007 where they are of
/// one and the same shape.
TargetAnswer on_target(const Comparison& trial, const Comparison& target);

}  // namespace megacpp::compare
