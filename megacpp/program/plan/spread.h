// SPDX-License-Identifier: Apache-2.0
// The mesh of a layout and the axes behind each dimension of the model.
#pragma once

#include <map>
#include <string>

#include "megacpp/program/blocks/parallel.h"
#include "megacpp/program/plan/resolved_layout.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

/// Chips of the inner part of `data` over which weights stay split between forward and backward, when
/// reshard_after_forward is a number that counts (zero 3); 1 otherwise.
int64_t kept_group(const recipe::Layout& layout);

/// Whether early and late runs of a split sequence are paired: only blocks that work around a ring gain from it.
bool is_balanced(const recipe::Model& model, const recipe::Layout& layout);

/// Chips of `model` that split the tokens of an expert block: those that do not split the experts' inner width, where
/// tokens arrive split over `model` at all.
int64_t token_parts(const recipe::Model& model, const recipe::Layout& layout);

/// The recipe key behind each axis of a mesh, steps left out: "model" -> "layout.tensor_parallel".
const std::map<std::string, std::string>& degree_keys();

/// The gates have passed.
blocks::Parallel spread(const recipe::Model& model, const ResolvedLayout& resolved);

}  // namespace megacpp::plan
