// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/step_ports.h"

#include <algorithm>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/program/compile/state_table.h"

namespace megacpp::runtime {
namespace {

template <typename Port>
const Port* find(const std::vector<Port>& ports, const std::string& name) {
  const auto at = std::ranges::find(ports, name, &Port::name);
  return at == ports.end() ? nullptr : &*at;
}

std::vector<StagedInput> inputs_of(const compile::StagePrograms& stage, const ir::Mesh& mesh) {
  int64_t micro_steps = 1;
  for (const compile::Action& action : stage.step) micro_steps = std::max(micro_steps, action.micro + 1);
  std::vector<StagedInput> inputs;
  for (const compile::StateTensor& tensor : stage.state)
    if (!tensor.staged_as.empty() && find(inputs, tensor.staged_as) == nullptr)
      inputs.push_back({tensor.staged_as, compile::local_type(tensor, mesh), tensor.per_micro_step ? micro_steps : 1});
  return inputs;
}

ir::TensorType type_of_output(const compile::Program& program, const ir::Output& output, const ir::Mesh& mesh) {
  const auto placed = program.outputs.find(output.name);
  if (placed == program.outputs.end()) return program.graph.type(output.value);
  return {placed->second.whole.dtype, ir::local_shape(placed->second.whole.shape, placed->second.sharding, mesh)};
}

// The update zeroes what the micro-steps have summed: of a name that both leave, theirs is meant.
std::vector<FetchedOutput> outputs_of(const compile::StagePrograms& stage, const std::set<std::string>& wanted,
                                      const ir::Mesh& mesh) {
  std::vector<FetchedOutput> outputs;
  for (const bool of_update : {false, true})
    for (size_t a = 0; a < stage.step.size(); ++a) {
      const compile::Action& action = stage.step[a];
      if (stage.is_update(action) != of_update) continue;
      const compile::Program& program = stage.programs[action.program];
      for (const ir::Output& output : program.graph.outputs()) {
        if (!wanted.contains(output.name)) continue;
        const auto known = std::ranges::find(outputs, output.name, &FetchedOutput::name);
        if (known == outputs.end())
          outputs.push_back({output.name, type_of_output(program, output, mesh), {a}});
        else if (!of_update)
          known->actions.push_back(a);
      }
    }
  return outputs;
}

void require_made(const std::vector<StepPorts>& stages, const compile::Compiled& compiled, const std::string& name) {
  for (const StepPorts& stage : stages)
    if (stage.find_output(name) != nullptr) return;
  std::vector<std::string> made;
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const compile::Program& program : stage.programs)
      for (const ir::Output& output : program.graph.outputs()) made.push_back(output.name);
  base::raise(base::Code::E1203, {.where = "fetched output '" + name + "'",
                                  .got = "programs without such an output",
                                  .wanted = "the name of an output",
                                  .next = base::did_you_mean(name, made, "fetch loss or another of its outputs")});
}

}  // namespace

const StagedInput* StepPorts::find_input(const std::string& name) const { return find(inputs, name); }
const FetchedOutput* StepPorts::find_output(const std::string& name) const { return find(outputs, name); }

std::vector<StepPorts> step_ports(const compile::Compiled& compiled, const std::vector<std::string>& fetches) {
  std::set<std::string> wanted(fetches.begin(), fetches.end());
  wanted.insert(std::begin(kMetrics), std::end(kMetrics));
  std::vector<StepPorts> stages;
  for (const compile::StagePrograms& stage : compiled.stages)
    stages.push_back({inputs_of(stage, compiled.mesh), outputs_of(stage, wanted, compiled.mesh)});
  for (const std::string& name : fetches) require_made(stages, compiled, name);
  return stages;
}

}  // namespace megacpp::runtime
