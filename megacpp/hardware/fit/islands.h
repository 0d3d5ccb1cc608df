// SPDX-License-Identifier: Apache-2.0
// Which link is under each axis of a mesh, and whether its chips stay inside the fast domain: the slice that a torus
// joins, or the node that a switch does. Tensor and expert parallelism exchange in every block, so they belong inside;
// where one crosses, what that costs and the nearest layout that stays inside are named. All of it follows from the
// hardware's file and the order of the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/hardware/fit/axis_link.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

/// One axis of the layout; where tensors split it in steps (model.0, model.1) all of them together.
struct AxisIsland {
  std::string axis;  // "model"
  int64_t size = 1;
  AxisLink link = {};
  int64_t domains = 1;  // fast ones that its widest group spans: 1 stays inside
  std::string where;    // "inside a node of 8", "across 4 nodes", "inside the slice"

  bool crosses() const { return domains > 1; }
};

/// In the order of the mesh. E1602 as link_along().
std::vector<AxisIsland> islands_of(const hw::Slice& slice, const ir::Mesh& mesh);

/// A tensor- or expert-parallel axis that crosses.
struct Crossing {
  AxisIsland island;
  std::string key;            // "layout.tensor_parallel"
  double seconds = 0;         // of a step on the wire over groups of this axis
  double inside_seconds = 0;  // the same bytes in as many calls over the link inside, each to its neighbour
  std::string inside_link;    // empty: the hardware's file names none
  /// What to set so that it stays inside, on as many chips; nothing: no legal layout does by its degree and
  /// data_parallel alone.
  std::optional<plan::Changes> nearest = {};
};

/// `recipe` is legal on `slice`, with as many chips. `time` is its predicted step.
std::vector<Crossing> crossings_of(const recipe::Recipe& recipe, const hw::Slice& slice, const ir::Mesh& mesh,
                                   const StepTime& time);

/// "layout.tensor_parallel 16 crosses: model is across 2 nodes over network, ... set layout.tensor_parallel=8 ..."
std::string to_text(const Crossing& crossing);

}  // namespace megacpp::fit
