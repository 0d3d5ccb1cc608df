// SPDX-License-Identifier: Apache-2.0
// What Gemma 2 and Gemma 3 have in common.
#pragma once

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_codec.h"

namespace megacpp::checkpoint {

/// Norms on both sides of a block, (1 + w), an embedding scaled by the root of its width, GeGLU.
void gemma(HfCodec& io, recipe::Model& model);
/// Scores are divided by the root of it.
void query_scalar(HfCodec& io, blocks::Attention& a);

}  // namespace megacpp::checkpoint
