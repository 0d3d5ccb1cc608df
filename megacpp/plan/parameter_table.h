// SPDX-License-Identifier: Apache-2.0
// Where every parameter lies, as a table for people: one row for all blocks that are alike. And what weights, gradients
// and optimizer state take on a chip, so that layouts can be compared without compiling.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/plan/plan.h"

namespace megacpp::plan {

struct ParameterRow {
  std::string name;                                   // "block*.A.wq"
  int64_t count = 0;                                  // parameters that fold into this row
  ir::Shape shape;                                    // whole, of one of them
  ir::Shape local;                                    // what a chip computes with
  bool replicated = false;                            // stored whole on every chip
  std::string stored, computed, gradient, optimizer;  // specs
  int64_t stored_bytes = 0;                           // per chip, of all `count` together
  std::string why;
};

/// In the order of the model.
std::vector<ParameterRow> parameter_table(const Plan& plan, std::span<const blocks::Parameter> parameters);

/// Per chip; parameters of all pipeline stages together. State is f32.
struct StateBytes {
  int64_t weights = 0;     // between steps
  int64_t kept = 0;        // second copies of weights held from forward to backward
  int64_t gradients = 0;   // added up over micro-steps
  int64_t optimizer = 0;   // both moments
  int64_t replicated = 0;  // those of `weights` that every chip holds whole

  int64_t total() const { return weights + kept + gradients + optimizer; }
};
StateBytes state_bytes(const Plan& plan, std::span<const blocks::Parameter> parameters);

}  // namespace megacpp::plan
