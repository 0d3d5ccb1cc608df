// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/function_values.h"

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::emit {

using ops::HloValue;
using ops::HloWriter;

FunctionValues::FunctionValues(const FunctionRequest& request)
    : request_(request),
      stacks_(request.program.graph.values().size()),
      names_(request.program.graph.values().size()),
      readers_(request.program.graph.values().size()) {
  const ir::Graph& graph = request.program.graph;
  std::unordered_map<std::string, ir::ValueId> inputs;
  for (const ir::NodeId id : graph.inputs()) inputs[graph.node(id).attrs.text("name")] = graph.node(id).results[0];
  for (size_t s = 0; s < request.inputs.size(); ++s) {
    const Slot& slot = request.inputs[s];
    const ir::TensorType type = slot_type(slot, graph.type(inputs.at(slot.names[0])));
    const HloValue argument{fmt::format("%arg{}", s), ops::hlo_type(type)};
    arguments_.push_back(argument);
    if (!slot.is_stack()) {
      set(inputs.at(slot.names[0]), argument);
      continue;
    }
    const size_t stack = stacks_.add(argument);
    for (size_t i = 0; i < slot.names.size(); ++i)
      stacks_.put(inputs.at(slot.names[i]), {stack, static_cast<int64_t>(i)});
  }
  for (size_t p = 0; p < request.program.pieces.size(); ++p)
    for (const ir::ValueId value : request.program.pieces[p].reads) readers_[value.index].push_back(p);
  for (const ir::Output& output : graph.outputs()) outputs_[output.name] = &output;
  for (const Slot& slot : request.outputs)
    for (const std::string& name : slot.names) {
      const ir::Output& output = *outputs_.at(name);
      results_.insert(output.value.index);
      if (const auto donor = inputs.find(output.donated); donor != inputs.end())
        replaces_.emplace(output.value.index, donor->second);
    }
}

const HloValue& FunctionValues::at_hand(HloWriter& writer, ir::ValueId value) {
  HloValue& name = names_[value.index];
  if (name.name.empty()) {
    MEGACPP_CHECK(stacks_.holds(value)) << request_.name << ": value " << value.index << " is read before it is made";
    const Stacks::Place& place = stacks_.place(value);
    const HloValue& stack = stacks_.stack(place.stack);
    name =
        writer.reshape(writer.slice(stack, 0, place.index, 1), {stack.type.shape.begin() + 1, stack.type.shape.end()});
  }
  return name;
}

HloValue FunctionValues::stack_of(HloWriter& writer, const std::vector<ir::ValueId>& values) {
  if (const auto line = stacks_.line(values))
    if (line->start == 0 && line->step == 1 &&
        stacks_.stack(line->stack).type.shape[0] == static_cast<int64_t>(values.size()))
      return stacks_.stack(line->stack);
  std::vector<HloValue> parts;
  for (const ir::ValueId value : values) {
    const HloValue& one = at_hand(writer, value);
    parts.push_back(writer.reshape(one, with_first(1, one.type.shape)));
  }
  return writer.concatenate(parts, 0);
}

HloValue FunctionValues::result(HloWriter& writer, const Slot& slot) {
  std::vector<ir::ValueId> values;
  for (const std::string& name : slot.names) values.push_back(outputs_.at(name)->value);
  return slot.is_stack() ? stack_of(writer, values) : at_hand(writer, values[0]);
}

std::optional<ir::ValueId> FunctionValues::replaced_by(ir::ValueId value) const {
  const auto at = replaces_.find(value.index);
  return at == replaces_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace megacpp::emit
