// SPDX-License-Identifier: Apache-2.0
// What a tensor_parallel degree asks of a model. Heads and groups are split whole. Where there are fewer KV heads or
// groups than chips, neighbouring chips share one; so the `model` axis is cut into steps, and each tensor uses the
// leading steps that it can fill. Experts may be split over the trailing steps alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "megacpp/base/decision.h"
#include "megacpp/recipe/pattern.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::plan {

/// Something that is split whole over `model`.
struct Splittable {
  std::string_view path;  // "model.attention.kv_heads"
  int64_t count = 0;
  bool shareable = false;  // may be fewer than the chips
};

/// Those of the families in the pattern.
std::vector<Splittable> splittables(const recipe::Model& model, const recipe::ExpandedPattern& pattern);
bool can_split(const Splittable& what, int64_t tensor_parallel);

bool has_experts(const recipe::Model& model, const recipe::ExpandedPattern& pattern);
/// expert_tensor_parallel with its default filled in.
int64_t expert_tensor_parallel(const recipe::Layout& layout);

/// Chips of `model` that a shareable thing is split over: all, or as many as there are of it.
int64_t parts_of(int64_t count, int64_t tensor_parallel);

/// Ascending products of leading steps that some tensor needs, from 1 to tensor_parallel: 1, 2, 8.
std::vector<int64_t> step_products(const recipe::Model& model, const recipe::Layout& layout);
/// Whether each divides the next, so that steps with these products exist.
bool is_chain(const std::vector<int64_t>& products);

/// Whether every family of the model can be split over `layout.tensor_parallel` chips.
base::Decision tensor_parallel_fits(const recipe::Model& model, const recipe::Layout& layout);

}  // namespace megacpp::plan
