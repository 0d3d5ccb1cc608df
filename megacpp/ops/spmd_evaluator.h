// SPDX-License-Identifier: Apache-2.0
// Runs one per-chip program on all chips of a mesh in lockstep, with the ops' references: each node on every chip, then
// the next. The answer every partitioned program, transport and runtime is compared with. Programs that send and
// receive are refused: their stages run different programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/ir/graph.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/ops/evaluator.h"
#include "megacpp/ops/tensor.h"

namespace megacpp::ops {

/// Inputs by chip and name; returns outputs by chip and name.
std::vector<std::map<std::string, Tensor>> evaluate_spmd(
    const ir::Graph& graph, const ir::Mesh& mesh, const std::vector<std::map<std::string, Tensor>>& inputs_per_chip,
    Rounding rounding = Rounding::to_dtype);

/// What one chip stores of a tensor: its part, padded with zeros. Of the partial sums along unreduced axes, the chip at
/// index 0 holds the value and the others zero.
Tensor shard(const Tensor& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip);

/// The tensor that the chips hold together: partial sums added up, padding dropped. Chips that should hold the same
/// must agree within 1e-9 of the largest element.
Tensor unshard(const std::vector<Tensor>& per_chip, const ir::Shape& whole, const ir::Sharding& sharding,
               const ir::Mesh& mesh);

}  // namespace megacpp::ops
