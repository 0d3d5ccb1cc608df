// SPDX-License-Identifier: Apache-2.0
// Runs one per-chip program on all chips of a mesh in lockstep, with the ops' references: each node on every chip, then
// the next. The answer every partitioned program, transport and runtime is compared with. Programs that send and
// receive are refused: their stages run different programs.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tensor.h"
#include "tests/support/collective_reference.h"

namespace megacpp::testing_support {
namespace spmd {

using ops::Rounding;
using ops::Tensor;
using Inputs = std::vector<std::map<std::string, Tensor>>;

class Lockstep {
 public:
  Lockstep(const ir::Graph& graph, const ir::Mesh& mesh, Rounding rounding)
      : graph_(graph), mesh_(mesh), rounding_(rounding), values_(chips(), std::vector<Tensor>(graph.values().size())) {}

  std::vector<std::map<std::string, Tensor>> run(const Inputs& inputs) {
    MEGACPP_CHECK(inputs.size() == chips()) << "inputs of " << inputs.size() << " chips on " << to_string(mesh_);
    for (const ir::Node& node : graph_.nodes())
      for (size_t chip = 0; chip < chips(); ++chip)
        store(node, chip, node.op == ir::kInputOp ? std::vector{bound(node, inputs[chip])} : computed(node, chip));
    std::vector<std::map<std::string, Tensor>> outputs(chips());
    for (size_t chip = 0; chip < chips(); ++chip)
      for (const ir::Output& output : graph_.outputs()) outputs[chip][output.name] = values_[chip][output.value.index];
    return outputs;
  }

 private:
  size_t chips() const { return static_cast<size_t>(mesh_.chips()); }

  Tensor bound(const ir::Node& node, const std::map<std::string, Tensor>& inputs) const {
    const std::string& name = node.attrs.text("name");
    const auto at = inputs.find(name);
    MEGACPP_CHECK(at != inputs.end()) << "no tensor given for input '" << name << "'";
    const ir::TensorType& wanted = graph_.type(node.results[0]);
    MEGACPP_CHECK(at->second.type == wanted)
        << "input '" << name << "' is " << to_string(at->second.type) << ", wanted " << to_string(wanted);
    return at->second;
  }

  std::vector<Tensor> operands_on(size_t chip, const ir::Node& node) const {
    std::vector<Tensor> operands;
    for (const ir::ValueId operand : node.operands) operands.push_back(values_[chip][operand.index]);
    return operands;
  }

  std::vector<Tensor> computed(const ir::Node& node, size_t chip) const {
    if (!ops::op_def(node.op).is_collective)
      return ops::evaluate_op(node.op, operands_on(chip, node), node.attrs, rounding_);
    const ir::Axes axes = ir::parse_axes(node.attrs.text("axes"), mesh_);
    const int64_t self = static_cast<int64_t>(chip);
    std::vector<std::vector<Tensor>> operands;  // by member
    for (const int64_t member : mesh_.group(self, axes))
      operands.push_back(operands_on(static_cast<size_t>(member), node));
    std::vector<Tensor> results =
        evaluate_collective(node.op, operands, static_cast<size_t>(mesh_.index_in_group(self, axes)), node.attrs);
    if (rounding_ == Rounding::none) return results;
    for (Tensor& result : results)
      for (double& element : result.data) element = ir::rounded(result.type.dtype, element);
    return results;
  }

  void store(const ir::Node& node, size_t chip, std::vector<Tensor> results) {
    for (size_t r = 0; r < results.size(); ++r) values_[chip][node.results[r].index] = std::move(results[r]);
  }

  const ir::Graph& graph_;
  const ir::Mesh& mesh_;
  Rounding rounding_;
  std::vector<std::vector<Tensor>> values_;  // by chip, by value
};

inline std::vector<ir::LocalRange> ranges_of(const ir::Shape& whole, const ir::Sharding& sharding, const ir::Mesh& mesh,
                                             int64_t chip) {
  std::vector<ir::LocalRange> ranges;
  for (size_t d = 0; d < whole.size(); ++d) ranges.push_back(ir::local_range(whole[d], sharding.dims[d], mesh, chip));
  return ranges;
}

// Calls body(position in the chip's part, position in the whole) for each element of the part that is not padding.
template <typename Body>
void for_each_real(const ir::Shape& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip,
                   const Body& body) {
  const ir::Shape part = ir::local_shape(whole, sharding, mesh);
  const std::vector<ir::LocalRange> ranges = ranges_of(whole, sharding, mesh, chip);
  int64_t i = -1;
  ops::for_each_index(part, [&](ir::Shape index) {
    ++i;
    for (size_t d = 0; d < index.size(); ++d) {
      if (index[d] >= ranges[d].count) return;
      index[d] += ranges[d].first;
    }
    body(i, ops::flat_index(index, whole));
  });
}

// The axes along which chips hold the same.
inline ir::Axes replicated_axes(const ir::Sharding& sharding, const ir::Mesh& mesh) {
  ir::Axes axes;
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    const ir::AxisId axis = static_cast<ir::AxisId>(a);
    const bool is_unreduced =
        std::find(sharding.unreduced.begin(), sharding.unreduced.end(), axis) != sharding.unreduced.end();
    if (!is_unreduced && !sharding.splits(axis)) axes.push_back(axis);
  }
  return axes;
}

inline void check_agree(const Tensor& first, const Tensor& copy, int64_t which) {
  double largest = 0;
  for (const double element : first.data)
    if (std::isfinite(element)) largest = std::max(largest, std::fabs(element));
  for (int64_t i = 0; i < first.elements(); ++i) {
    const bool equal = first[i] == copy[i] || (std::isnan(first[i]) && std::isnan(copy[i]));
    MEGACPP_CHECK(equal || std::fabs(first[i] - copy[i]) <= 1e-9 * largest)
        << "element " << i << " of " << to_string(first.type) << " is " << first[i] << ", but " << copy[i]
        << " in copy " << which;
  }
}

}  // namespace spmd

/// Inputs by chip and name; returns outputs by chip and name.
inline std::vector<std::map<std::string, ops::Tensor>> evaluate_spmd(
    const ir::Graph& graph, const ir::Mesh& mesh,
    const std::vector<std::map<std::string, ops::Tensor>>& inputs_per_chip,
    ops::Rounding rounding = ops::Rounding::to_dtype) {
  return spmd::Lockstep(graph, mesh, rounding).run(inputs_per_chip);
}

/// What one chip stores of a tensor: its part, padded with zeros. Of the partial sums along unreduced axes, the chip at
/// index 0 holds the value and the others zero.
inline ops::Tensor shard(const ops::Tensor& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip) {
  ops::Tensor part = ops::Tensor::zeros({whole.type.dtype, ir::local_shape(whole.type.shape, sharding, mesh)});
  if (mesh.index_in_group(chip, sharding.unreduced) != 0) return part;
  spmd::for_each_real(whole.type.shape, sharding, mesh, chip,
                      [&](int64_t local, int64_t global) { part[local] = whole[global]; });
  return part;
}

/// The tensor that the chips hold together: partial sums added up, padding dropped. Chips that should hold the same
/// must agree within 1e-9 of the largest element.
inline ops::Tensor unshard(const std::vector<ops::Tensor>& per_chip, const ir::Shape& whole,
                           const ir::Sharding& sharding, const ir::Mesh& mesh) {
  MEGACPP_CHECK(static_cast<int64_t>(per_chip.size()) == mesh.chips())
      << "parts of " << per_chip.size() << " chips on " << to_string(mesh);
  const ir::TensorType part{per_chip[0].type.dtype, ir::local_shape(whole, sharding, mesh)};
  const ir::Axes replicated = spmd::replicated_axes(sharding, mesh);
  std::vector<ops::Tensor> copies(static_cast<size_t>(mesh.size(replicated)), ops::Tensor::zeros({part.dtype, whole}));
  for (int64_t chip = 0; chip < mesh.chips(); ++chip) {
    const ops::Tensor& own = per_chip[static_cast<size_t>(chip)];
    MEGACPP_CHECK(own.type == part) << "chip " << chip << " holds " << to_string(own.type) << ", wanted "
                                    << to_string(part) << " of " << ir::to_string(whole);
    ops::Tensor& copy = copies[static_cast<size_t>(mesh.index_in_group(chip, replicated))];
    spmd::for_each_real(whole, sharding, mesh, chip,
                        [&](int64_t local, int64_t global) { copy[global] += own[local]; });
  }
  for (size_t c = 1; c < copies.size(); ++c) spmd::check_agree(copies[0], copies[c], static_cast<int64_t>(c));
  return copies[0];
}

}  // namespace megacpp::testing_support
