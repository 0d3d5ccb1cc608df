// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/module.h"

#include <map>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/emit/looped_programs.h"
#include "megacpp/program/emit/module_writer.h"

namespace megacpp::emit {

using ops::HloType;
using ops::HloValue;

Module write_program(const ir::Graph& graph, const ir::Mesh& mesh, const partition::Placements& inputs,
                     const partition::Placements& outputs, Placement placement, const FunctionOptions& options) {
  ModuleWriter writer("program", mesh, placement, options);
  const LoopedPrograms looped({&graph}, options);
  const FunctionRequest request{"program", looped.program(0), looped.passes(0), looped.slots(input_names(graph)),
                                looped.slots(output_names(graph))};
  writer.add_function(request);
  std::map<std::string, ir::TensorType> input_types;
  for (const ir::NodeId id : graph.inputs()) input_types[name_of(graph, id)] = graph.type(graph.node(id).results[0]);
  std::vector<HloValue> operands;
  std::map<std::string, size_t> argument_of;  // by the first name of its slot
  for (const Slot& slot : request.inputs) {
    const ir::TensorType& type = input_types.at(slot.names[0]);
    argument_of[slot.names[0]] = operands.size();
    operands.push_back(writer.argument(writer.port(slot, type, inputs), slot_type(slot, type)));
  }
  std::map<std::string, const ir::Output*> leaving;
  for (const ir::Output& output : graph.outputs()) leaving[output.name] = &output;
  std::vector<HloType> types;
  for (const Slot& slot : request.outputs)
    types.push_back(ops::hlo_type(slot_type(slot, graph.type(leaving.at(slot.names[0])->value))));
  const std::vector<HloValue> results = writer.body().call("program", operands, types);
  for (size_t i = 0; i < results.size(); ++i) {
    const Slot& slot = request.outputs[i];
    const ir::Output& output = *leaving.at(slot.names[0]);
    MEGACPP_CHECK(!slot.is_stack() || output.donated.empty() || output.donated == output.name)
        << "state " << output.donated << " leaves as " << output.name;
    const auto donor = argument_of.find(output.donated);
    writer.result(writer.port(slot, graph.type(output.value), output.donated.empty() ? outputs : inputs), results[i],
                  donor == argument_of.end() ? std::nullopt : std::optional(donor->second));
  }
  return writer.finish();
}

}  // namespace megacpp::emit
