// SPDX-License-Identifier: Apache-2.0
#include "megacpp/emit/module.h"

#include <map>
#include <optional>

#include "megacpp/emit/module_writer.h"

namespace megacpp::emit {

using ops::HloType;
using ops::HloValue;

Module write_program(const ir::Graph& graph, const ir::Mesh& mesh, const partition::Placements& inputs,
                     const partition::Placements& outputs, Placement placement, const FunctionOptions& options) {
  ModuleWriter writer("program", mesh, placement, options);
  const Outlined program = outlined(graph);
  writer.add_function({"program", program, {}, input_slots(graph), output_slots(graph)});
  std::vector<HloValue> operands;
  std::map<std::string, size_t> argument_of;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = name_of(graph, id);
    const ir::TensorType& type = graph.type(graph.node(id).results[0]);
    argument_of[name] = operands.size();
    operands.push_back(writer.argument(writer.port(name, type, inputs), type));
  }
  std::vector<HloType> types;
  for (const ir::Output& output : graph.outputs()) types.push_back(ops::hlo_type(graph.type(output.value)));
  const std::vector<HloValue> results = writer.body().call("program", operands, types);
  for (size_t i = 0; i < results.size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    const auto donor = argument_of.find(output.donated);
    writer.result(writer.port(output.name, graph.type(output.value), output.donated.empty() ? outputs : inputs),
                  results[i], donor == argument_of.end() ? std::nullopt : std::optional(donor->second));
  }
  return writer.finish();
}

}  // namespace megacpp::emit
