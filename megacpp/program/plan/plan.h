// SPDX-License-Identifier: Apache-2.0
// From a recipe to what a training step is, with nothing left open: the model, its micro-steps, its optimizer, and
// where everything is placed: the mesh, the axes behind each dimension of the model, and for every parameter how it is
// stored, computed with, differentiated and updated. Nothing here computes or allocates; later stages read the plan and
// never the recipe behind it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/blocks/parallel.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/plan/resolved_layout.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

/// What a step computes, besides the model.
struct Training {
  int64_t batch = 0;     // sequences of a micro-step, over all chips
  int64_t sequence = 0;  // tokens
  int64_t micro_steps = 1;
  ir::DType precision = ir::DType::f32;
  std::map<char, recipe::RecomputeLevel> recompute = {};  // of every letter that the model has
};

/// Mesh axes are, in this order and only where a degree is above 1: stage, data, expert, context, model. `data` and
/// `model` stand as several axes (model.0, model.1, ..) where tensors must split them in steps.
struct Plan {
  recipe::Model model = {};
  Training training = {};
  ResolvedLayout layout = {};
  blocks::Parallel parallel = {};
  int64_t chips = 1;
  int64_t stages = 1;
  /// Blocks that begin a new stage because the pattern's '|' says so; empty: stages are cut by cost.
  std::vector<int64_t> cuts = {};
  /// Whether a step has several micro-steps, whose gradients add up.
  bool adds_micro_steps = false;
  /// Zero below 2: micro-steps add up the gradients each chip has, and the update reduces the sums once. With a single
  /// micro-step nothing is saved by waiting: gradients are reduced as the backward pass makes them, beside its work.
  bool gradients_wait = false;
  GatherUnit gathers = GatherUnit::parameter;
  recipe::Optimizer optimizer = {};
  /// Axes along which copies of a parameter see different tokens; ZeRO splits over them.
  ir::Axes copies = {};         // of a dense parameter
  ir::Axes expert_copies = {};  // of a parameter of experts
  /// Those of them over which a weight stays split between forward and backward (zero 3 only).
  ir::Axes kept = {};
};

/// The axes along which copies of this parameter see different tokens.
const ir::Axes& copies_of(const Plan& plan, const blocks::Parameter& parameter);

/// How one parameter is sharded in each part of a step. All have the parameter's rank.
struct ParameterSpec {
  ir::Sharding stored;     // between steps
  ir::Sharding kept;       // between forward and backward
  ir::Sharding computed;   // in products
  ir::Sharding gradient;   // added up over micro-steps; unreduced where the reduction waits for the update
  ir::Sharding optimizer;  // of the gradient that the update sees
  ir::Sharding matrices;   // of its direction while an optimizer maps that matrix by matrix
  /// What the optimizer keeps for it; none where nothing trains it.
  std::vector<optim::StateTensor> state = {};
  std::string group;  // of parameters that are updated alike: "AdamW, decay 0.1"
  std::string why;    // "column-parallel over model: query heads; optimizer split over data (zero 1)"
};

/// Keys that a refusal may tell the user to change: all, or those of the layout where the rest is given otherwise.
enum class Adjustable : uint8_t { recipe, layout };

/// All gates of gates.h first: E1401 to E1407 for a layout that cannot be, with changes that make it one that can.
Plan make_plan(const recipe::Recipe& recipe, Adjustable adjustable = Adjustable::recipe);

/// E1409 when the parameter's dimensions cannot be spread so.
ParameterSpec spec_of(const Plan& plan, const blocks::Parameter& parameter);

/// Parameters in a bucket start at a multiple of this many elements, as Megatron-Core lays them out.
inline constexpr int64_t kBucketAlignment = 64;

}  // namespace megacpp::plan
