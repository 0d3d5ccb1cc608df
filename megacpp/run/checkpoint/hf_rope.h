// SPDX-License-Identifier: Apache-2.0
// Rotary options of a Hugging Face config, as older and newer versions of the library spell them: rope_theta with
// rope_scaling, or rope_parameters with both. An option that the type of scaling does not read is refused.
#pragma once

#include "megacpp/core/base/json.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/run/checkpoint/hf_codec.h"

namespace megacpp::checkpoint {

struct RopeDefaults {
  double theta = 10000;
  double part = 1;           // of a head that turns, where nothing says it
  bool may_be_part = false;  // the class can turn a part
};

/// head_dim is known.
void rope(HfCodec& io, blocks::Attention& a, const RopeDefaults& otherwise = {});

/// One object of options, with what the rest of the config says of them.
void read_rope(const HfFields& config, const HfFields& options, const RopeDefaults& otherwise, blocks::Attention& a);
base::Json rope_json(const blocks::Attention& a);

}  // namespace megacpp::checkpoint
