// SPDX-License-Identifier: Apache-2.0
// The update program: reads accumulated gradients, clips by their global norm, applies AdamW, zeroes the gradients.
// State is donated, so everything happens in place. Learning rate and step are inputs: changing them never recompiles.
#pragma once

#include <string>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/ir/graph.h"
#include "megacpp/optim/optimizer.h"

namespace megacpp::optim {

/// An expert bias steered by how often its experts were asked for (loss-free balancing).
struct BiasBalance {
  std::string bias;    // parameter name
  std::string counts;  // state holding the requests of all micro-steps
  int64_t experts = 0;
  double rate = 0;
  std::string sharding = {};  // of the counts on a mesh, as their input carries it
};

/// Names of the state that belongs to a parameter.
std::string gradient_name(const std::string& parameter);       // "grad.<name>"
std::string first_moment_name(const std::string& parameter);   // "adam_m.<name>"
std::string second_moment_name(const std::string& parameter);  // "adam_v.<name>"

/// How the state of one parameter lies on the mesh, as texts of shardings; all empty on one chip.
struct StateShardings {
  std::string weight;
  std::string gradient;  // as micro-steps leave it
  std::string moments;   // and the gradient they see
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

/// One entry of `shardings` per parameter, or none at all. Inputs besides state: lr (f32[]), step (f32[], from 1).
/// Outputs: grad_norm and, donated, all state.
ir::Graph build_update(const std::vector<blocks::Parameter>& parameters, const std::vector<BiasBalance>& balances,
                       const Optimizer& optimizer, const std::vector<StateShardings>& shardings = {},
                       const StageLinks& links = {});

}  // namespace megacpp::optim
