// SPDX-License-Identifier: Apache-2.0
// How every parameter is sharded, as a table for people: one row for all blocks of a stage that are alike. And what
// weights, gradients and optimizer state take on a chip, so that layouts can be compared without compiling.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/plan/plan.h"

namespace megacpp::plan {

struct ParameterRow {
  int64_t stage = 0;                                  // of the pipeline, whose chips alone hold it
  std::string name;                                   // "block*.A.wq"
  int64_t count = 0;                                  // parameters that fold into this row
  ir::Shape shape;                                    // whole, of one of them
  ir::Shape local;                                    // what a chip computes with
  int64_t holders = 1;                                // chips that store the same: all of it or the same part
  bool whole = false;                                 // each of them stores all of it
  std::string stored, computed, gradient, optimizer;  // specs
  std::string group;                                  // of parameters that are updated alike: "AdamW, no decay"
  int64_t stored_bytes = 0;                           // per chip, of all `count` together
  std::string why;

  /// Whole on more chips than one.
  bool replicated() const { return whole && holders > 1; }
};

/// `stages` are the parameters that each stage of the pipeline holds; without a pipeline one list. In the order of the
/// stages, then of the model.
std::vector<ParameterRow> parameter_table(const Plan& plan, std::span<const std::vector<blocks::Parameter>> stages);

/// On a chip that holds these parameters. Weights and gradients are f32.
struct StateBytes {
  int64_t weights = 0;    // between steps
  int64_t kept = 0;       // second copies of weights held from forward to backward
  int64_t gradients = 0;  // added up over micro-steps
  int64_t optimizer = 0;  // all that the optimizer keeps

  int64_t total() const { return weights + kept + gradients + optimizer; }
};
StateBytes state_bytes(const Plan& plan, std::span<const blocks::Parameter> parameters);

}  // namespace megacpp::plan
