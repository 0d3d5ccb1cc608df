// SPDX-License-Identifier: Apache-2.0
// A recipe with every block family whose dimensions can be split over 2 and 4 chips in every direction.
#pragma once

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::testing_support {

inline recipe::Recipe hybrid_recipe() {
  recipe::Recipe recipe;
  recipe.name = "hybrid";
  recipe.model = {.name = "hybrid", .pattern = "AEMR", .depth = 8, .hidden = 64, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 8, .kv_heads = 4, .head_dim = 8};
  recipe.model.config<blocks::Mamba>() = {.heads = 16, .head_dim = 8, .groups = 4};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 96, .experts = 8};
  recipe.model.config<blocks::Recurrent>() = {.width = 64, .heads = 8};
  recipe.train.batch = 16;
  recipe.train.sequence = 64;
  recipe.train.steps = 1;
  return recipe;
}

}  // namespace megacpp::testing_support
