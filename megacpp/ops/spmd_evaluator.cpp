// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/spmd_evaluator.h"

#include <algorithm>
#include <cmath>

#include "megacpp/base/error.h"
#include "megacpp/ops/collective_reference.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::ops {
namespace {

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
    if (!op_def(node.op).is_collective) return evaluate_op(node.op, operands_on(chip, node), node.attrs, rounding_);
    const ir::Axes axes = ir::parse_axes(node.attrs.text("axes"), mesh_);
    const int64_t self = static_cast<int64_t>(chip);
    std::vector<std::vector<Tensor>> operands;  // by member
    for (const int64_t member : mesh_.group(self, axes))
      operands.push_back(operands_on(static_cast<size_t>(member), node));
    std::vector<Tensor> results =
        evaluate_collective(node.op, operands, static_cast<size_t>(mesh_.index_in_group(self, axes)), node.attrs);
    if (rounding_ == Rounding::none) return results;
    for (Tensor& result : results)
      for (double& element : result.data) element = round_to(result.type.dtype, element);
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

std::vector<ir::LocalRange> ranges_of(const ir::Shape& whole, const ir::Sharding& sharding, const ir::Mesh& mesh,
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
  for_each_index(part, [&](ir::Shape index) {
    ++i;
    for (size_t d = 0; d < index.size(); ++d) {
      if (index[d] >= ranges[d].count) return;
      index[d] += ranges[d].first;
    }
    body(i, flat_index(index, whole));
  });
}

// The axes along which chips hold the same.
ir::Axes replicated_axes(const ir::Sharding& sharding, const ir::Mesh& mesh) {
  ir::Axes axes;
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    const ir::AxisId axis = static_cast<ir::AxisId>(a);
    const bool is_unreduced =
        std::find(sharding.unreduced.begin(), sharding.unreduced.end(), axis) != sharding.unreduced.end();
    if (!is_unreduced && !sharding.splits(axis)) axes.push_back(axis);
  }
  return axes;
}

void check_agree(const Tensor& first, const Tensor& copy, int64_t which) {
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

}  // namespace

std::vector<std::map<std::string, Tensor>> evaluate_spmd(
    const ir::Graph& graph, const ir::Mesh& mesh, const std::vector<std::map<std::string, Tensor>>& inputs_per_chip,
    Rounding rounding) {
  return Lockstep(graph, mesh, rounding).run(inputs_per_chip);
}

Tensor shard(const Tensor& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip) {
  Tensor part = Tensor::zeros({whole.type.dtype, ir::local_shape(whole.type.shape, sharding, mesh)});
  if (mesh.index_in_group(chip, sharding.unreduced) != 0) return part;
  for_each_real(whole.type.shape, sharding, mesh, chip,
                [&](int64_t local, int64_t global) { part[local] = whole[global]; });
  return part;
}

Tensor unshard(const std::vector<Tensor>& per_chip, const ir::Shape& whole, const ir::Sharding& sharding,
               const ir::Mesh& mesh) {
  MEGACPP_CHECK(static_cast<int64_t>(per_chip.size()) == mesh.chips())
      << "parts of " << per_chip.size() << " chips on " << to_string(mesh);
  const ir::TensorType part{per_chip[0].type.dtype, ir::local_shape(whole, sharding, mesh)};
  const ir::Axes replicated = replicated_axes(sharding, mesh);
  std::vector<Tensor> copies(static_cast<size_t>(mesh.size(replicated)), Tensor::zeros({part.dtype, whole}));
  for (int64_t chip = 0; chip < mesh.chips(); ++chip) {
    const Tensor& own = per_chip[static_cast<size_t>(chip)];
    MEGACPP_CHECK(own.type == part) << "chip " << chip << " holds " << to_string(own.type) << ", wanted "
                                    << to_string(part) << " of " << ir::to_string(whole);
    Tensor& copy = copies[static_cast<size_t>(mesh.index_in_group(chip, replicated))];
    for_each_real(whole, sharding, mesh, chip, [&](int64_t local, int64_t global) { copy[global] += own[local]; });
  }
  for (size_t c = 1; c < copies.size(); ++c) check_agree(copies[0], copies[c], static_cast<int64_t>(c));
  return copies[0];
}

}  // namespace megacpp::ops
