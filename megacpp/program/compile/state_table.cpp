// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/state_table.h"

#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace megacpp::compile {
namespace {

class TableBuilder {
 public:
  TableBuilder(const StagePrograms& stage, const partition::Placements& placements,
               const std::vector<blocks::Parameter>& parameters)
      : stage_(stage), placements_(placements) {
    for (const blocks::Parameter& parameter : parameters) trainable_[parameter.name] = parameter.trainable;
  }

  std::vector<StateTensor> build() {
    std::set<std::pair<size_t, std::string_view>> seen;  // a step may run a program a million times
    for (const Action& action : stage_.step) {
      if (!seen.emplace(action.program, action.prefix).second) continue;
      const ir::Graph& graph = stage_.programs[action.program].graph;
      for (const ir::NodeId id : graph.inputs()) add(graph, graph.node(id), action);
    }
    std::vector<StateTensor> table;
    for (auto& [name, tensor] : by_name_) table.push_back(std::move(tensor));
    return table;
  }

 private:
  void add(const ir::Graph& graph, const ir::Node& input, const Action& action) {
    const std::string& name = input.attrs.text("name");
    const auto [at, is_new] = by_name_.try_emplace(name);
    StateTensor& tensor = at->second;
    if (is_new) describe(tensor, graph, input);
    if (input.role != ir::Role::batch) return;
    tensor.staged_as = name.starts_with(action.prefix) ? name.substr(action.prefix.size()) : name;
    tensor.per_micro_step |= !stage_.is_update(action);
  }

  void describe(StateTensor& tensor, const ir::Graph& graph, const ir::Node& input) const {
    tensor.name = input.attrs.text("name");
    tensor.role = input.role;
    const auto placed = placements_.find(tensor.name);
    if (placed == placements_.end()) {
      tensor.whole = graph.type(input.results[0]);
      tensor.sharding = ir::Sharding::replicated(tensor.whole.shape.size());
    } else {
      tensor.whole = placed->second.whole;
      tensor.sharding = placed->second.sharding;
    }
    const auto parameter = trainable_.find(tensor.name);
    tensor.trainable = parameter != trainable_.end() && parameter->second;
    tensor.kept = parameter != trainable_.end() || tensor.role == ir::Role::optimizer;
  }

  const StagePrograms& stage_;
  const partition::Placements& placements_;
  std::map<std::string, bool> trainable_;  // by parameter
  std::map<std::string, StateTensor> by_name_;
};

}  // namespace

std::vector<StateTensor> state_table(const StagePrograms& stage, const partition::Placements& placements,
                                     const std::vector<blocks::Parameter>& parameters) {
  return TableBuilder(stage, placements, parameters).build();
}

ir::TensorType local_type(const StateTensor& tensor, const ir::Mesh& mesh) {
  return {tensor.whole.dtype, ir::local_shape(tensor.whole.shape, tensor.sharding, mesh)};
}

int64_t kept_bytes(const Compiled& compiled) {
  const std::vector<int64_t> by_stage = kept_bytes_by_stage(compiled);
  return std::accumulate(by_stage.begin(), by_stage.end(), int64_t{0});
}

std::vector<int64_t> kept_bytes_by_stage(const Compiled& compiled) {
  std::vector<int64_t> by_stage;
  std::set<std::string_view> counted;
  for (const StagePrograms& stage : compiled.stages) {
    int64_t& bytes = by_stage.emplace_back(stage.kept_beside);
    for (const StateTensor& tensor : stage.state)
      if (tensor.kept && counted.insert(tensor.name).second) bytes += tensor.whole.bytes();
  }
  return by_stage;
}

}  // namespace megacpp::compile
