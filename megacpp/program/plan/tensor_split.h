// SPDX-License-Identifier: Apache-2.0
// What a tensor_parallel degree needs of a model. Heads and groups are split whole. Where there are fewer of a shared
// kind (KV heads, groups) than chips, neighbouring chips share one; so the `model` axis is cut into steps, and each
// tensor uses the leading steps that it can fill. Experts may be split over the trailing steps alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/blocks/traits.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

/// Something of a type of blocks that is split whole over `model`.
struct Splittable {
  std::string path;  // "model.attention.kv_heads"
  char letter = 0;   // of its blocks
  blocks::Split split;

  bool is_shareable() const { return split.how == blocks::Split::How::shared; }
};

/// Those of the blocks in the pattern; parts that may be padded are none.
std::vector<Splittable> splittables(const recipe::Model& model);
bool can_split(const blocks::Split& split, int64_t tensor_parallel);

/// expert_tensor_parallel with its default filled in.
int64_t expert_tensor_parallel(const recipe::Layout& layout);

/// Chips of `model` that a shareable thing is split over: all, or as many as there are of it.
int64_t parts_of(int64_t count, int64_t tensor_parallel);

/// Ascending products of leading steps that some tensor needs, from 1 to tensor_parallel: 1, 2, 8.
std::vector<int64_t> step_products(const recipe::Model& model, const recipe::Layout& layout);
/// Whether each divides the next, so that steps with these products exist.
bool is_chain(const std::vector<int64_t>& products);

/// Whether all blocks of the model can be split over `layout.tensor_parallel` chips.
base::Decision tensor_parallel_fits(const recipe::Model& model, const recipe::Layout& layout);

}  // namespace megacpp::plan
