// SPDX-License-Identifier: Apache-2.0
// The update program, whatever the optimizer: reads accumulated gradients, clips by their global norm, moves weights
// along the optimizer's direction, zeroes gradients that micro-steps add to. State is donated, so everything happens in
// place. Learning rate and step are inputs: changing them never recompiles.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::optim {

/// An expert bias steered by how often its experts were requested (loss-free balancing).
struct BiasBalance {
  std::string bias;    // parameter name
  std::string counts;  // state holding the requests of all micro-steps
  int64_t experts = 0;
  double rate = 0;
  std::string sharding = {};  // of the counts on a mesh, as their input carries it
};

/// "grad.<name>"
std::string gradient_name(const std::string& parameter);

/// How the state of one parameter is sharded on the mesh, as texts; all empty on one chip.
struct StateShardings {
  std::string weight;
  std::string gradient;            // as micro-steps leave it
  std::string update;              // of the gradient that the optimizer sees
  std::string matrices;            // of a direction while it is mapped matrix by matrix
  std::vector<std::string> state;  // of the optimizer's state, as state_of lists it
};

/// In a pipeline every stage updates its own parameters, clipped by the norm of all.
struct StageLinks {
  int64_t stages = 1;  // chips along the mesh axis "stage"
  /// A parameter that another stage holds too (tied embeddings): both add up their gradients.
  struct Shared {
    std::string parameter;
    int64_t peer = 0;         // offset of the other stage
    bool is_counted = false;  // in this stage's part of the norm
  };
  std::vector<Shared> shared = {};
};

/// What one update program updates.
struct UpdateTargets {
  const std::vector<blocks::Parameter>& parameters;
  std::vector<BiasBalance> balances = {};
  std::vector<StateShardings> shardings = {};  // one per parameter, or none at all
  StageLinks links = {};
  bool zeroes_gradients = true;  // false: the next step writes them anew
};

/// Inputs besides state: lr (f32[]), step (f32[], from 1). Outputs: grad_norm and, donated, all state.
ir::Graph build_update(const OptimizerDef& optimizer, const Optimizer& settings, const UpdateTargets& targets);

}  // namespace megacpp::optim
