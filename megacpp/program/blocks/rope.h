// SPDX-License-Identifier: Apache-2.0
// The tables of rotary position embedding: cosines and sines of position times frequency. Pair i of d channels that
// turn does so by theta^(-2 i / d) a token. Where a context is stretched by a factor, pairs that turn often enough over
// the original context keep their frequency, slow ones are divided by the factor, and those between are mixed.
#pragma once

#include <map>
#include <string>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/block.h"

namespace megacpp::blocks {

/// How the settings of rope fit together: E1003 or E1005 on the first that does not.
void check_rope(const ConfigCheck& check, const Attention& a);

/// rope_amplitude where it is not given: 0.1 ln(factor) + 1.
double default_amplitude(double factor);

/// "rope_cos" and "rope_sin", f32[sequence, pairs]; nothing without rope.
std::map<std::string, ValueId> rope_tables(const BuildContext& context);

}  // namespace megacpp::blocks
