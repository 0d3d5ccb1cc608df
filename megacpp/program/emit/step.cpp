// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/emit/looped_programs.h"
#include "megacpp/program/emit/module_writer.h"

namespace megacpp::emit {
namespace {

using ops::HloType;
using ops::HloValue;
using ops::HloWriter;

// The state of one step while it is written: what every slot holds at this point, by the first of its names.
class StepWriter {
 public:
  StepWriter(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options)
      : step_(step), programs_({&step.micro_step, &step.update}, options), writer_("step", mesh, placement, options) {
    for (const ir::Graph* graph : {&step.micro_step, &step.update})
      for (const ir::Output& output : graph->outputs())
        MEGACPP_CHECK(output.donated.empty() || output.donated == output.name)
            << "state " << output.donated << " leaves as " << output.name;
    for (const ir::Output& output : step.update.outputs()) {
      const ir::Node& maker = step.update.producer(output.value);
      if (!output.donated.empty() && maker.op == "constant" && maker.attrs.real("value") == 0.0)
        transient_.insert(output.donated);
    }
    find_rewritten();
  }

  Module write() {
    const FunctionRequest micro_step = request("micro_step", 0, output_names(step_.micro_step));
    const FunctionRequest update = request("update", 1, kept_names(step_.update));
    for (const FunctionRequest* request : {&micro_step, &update}) {
      writer_.add_function(*request);
      enter(*request);
    }
    run_micro_steps(micro_step);
    leave(update, call(writer_.body(), update, values_));
    leave_reports(micro_step);
    return writer_.finish();
  }

 private:
  using Values = std::map<std::string, HloValue>;

  // State of which a step reads nothing that the one before has left: a micro-step writes it, the update leaves it.
  void find_rewritten() {
    std::set<std::string> kept;  // what either program reads first, or the update replaces
    for (const ir::Output& output : step_.update.outputs()) kept.insert(output.donated);
    std::set<uint32_t> read;
    for (const ir::Node& node : step_.micro_step.nodes())
      for (const ir::ValueId operand : node.operands) read.insert(operand.index);
    for (const ir::Output& output : step_.micro_step.outputs()) read.insert(output.value.index);
    for (const ir::NodeId id : step_.micro_step.inputs())
      if (read.contains(step_.micro_step.node(id).results[0].index)) kept.insert(name_of(step_.micro_step, id));
    for (const ir::Output& output : step_.micro_step.outputs())
      if (!output.donated.empty() && !kept.contains(output.donated)) transient_.insert(output.donated);
  }

  static bool is_batch(const std::string& name) { return name.rfind("batch.", 0) == 0; }

  FunctionRequest request(const std::string& name, size_t index, const std::vector<std::string>& outputs) const {
    const Outlined& program = programs_.program(index);
    return {name, program, programs_.passes(index), programs_.slots(input_names(program.graph)),
            programs_.slots(outputs)};
  }

  // What a step needs of the update: all but the state that it sets to zero.
  std::vector<std::string> kept_names(const ir::Graph& update) const {
    std::vector<std::string> names = output_names(update);
    std::erase_if(names, [&](const std::string& name) { return transient_.contains(name); });
    return names;
  }

  void enter(const FunctionRequest& request) {
    const ir::Graph& graph = request.program.graph;
    std::unordered_map<std::string, ir::ValueId> inputs;
    for (const ir::NodeId id : graph.inputs()) inputs[name_of(graph, id)] = graph.node(id).results[0];
    for (const Slot& slot : request.inputs) {
      const std::string& name = slot.names[0];
      const ir::TensorType& type = graph.type(inputs.at(name));
      if (values_.contains(name)) continue;
      if (transient_.contains(name)) {
        values_[name] = zeros(ops::hlo_type(slot_type(slot, type)));
        continue;
      }
      if (is_batch(name)) {
        const ir::TensorType stacked{type.dtype, with_first(step_.micro_steps, type.shape)};
        values_[name] = writer_.argument(writer_.stack_port({name}, step_.micro_steps, type, step_.inputs), stacked);
      } else {
        argument_of_[name] = next_argument_;
        values_[name] = writer_.argument(writer_.port(slot, type, step_.inputs), slot_type(slot, type));
      }
      ++next_argument_;
    }
  }

  static const ir::TensorType& type_of_output(const ir::Graph& graph, const std::string& name) {
    return graph.type(*graph.find_output(name));
  }

  static ir::TensorType type_of_result(const FunctionRequest& request, const Slot& slot) {
    return slot_type(slot, type_of_output(request.program.graph, slot.names[0]));
  }

  // One constant for all of a type.
  const HloValue& zeros(const HloType& type) {
    HloValue& known = zeros_[ops::to_text(type)];
    if (known.name.empty()) known = writer_.body().constant(0, type);
    return known;
  }

  static Values call(HloWriter& w, const FunctionRequest& request, const Values& values) {
    std::vector<HloValue> operands;
    std::vector<HloType> types;
    for (const Slot& slot : request.inputs) operands.push_back(values.at(slot.names[0]));
    for (const Slot& slot : request.outputs) types.push_back(ops::hlo_type(type_of_result(request, slot)));
    const std::vector<HloValue> results = w.call(request.name, operands, types);
    Values left;
    for (size_t i = 0; i < results.size(); ++i) left[request.outputs[i].names[0]] = results[i];
    return left;
  }

  // Loop-carried: the reports so far, then the state that micro-steps add to.
  void run_micro_steps(const FunctionRequest& request) {
    HloWriter& w = writer_.body();
    std::vector<std::string> reported, state;
    std::vector<HloValue> carried;
    for (const Slot& slot : request.outputs) {
      const bool is_state = values_.contains(slot.names[0]);
      (is_state ? state : reported).push_back(slot.names[0]);
      if (is_state) continue;
      const HloType one = ops::hlo_type(type_of_result(request, slot));
      carried.push_back(w.constant(0, {one.element, with_first(step_.micro_steps, one.shape)}));
    }
    for (const std::string& name : state) carried.push_back(values_.at(name));
    const auto body = [&](const HloValue& micro, const std::vector<HloValue>& given) {
      Values values = values_;
      for (size_t i = 0; i < state.size(); ++i) values[state[i]] = given[reported.size() + i];
      for (auto& [name, value] : values)
        if (is_batch(name)) value = w.take_member(value, micro);
      const Values left = call(w, request, values);
      std::vector<HloValue> next;
      for (size_t i = 0; i < reported.size(); ++i) next.push_back(w.put_member(given[i], left.at(reported[i]), micro));
      for (const std::string& name : state) next.push_back(left.at(name));
      return next;
    };
    const std::vector<HloValue> last = w.loop(step_.micro_steps, carried, body);
    for (size_t i = 0; i < reported.size(); ++i) reports_[reported[i]] = last[i];
    for (size_t i = 0; i < state.size(); ++i) values_[state[i]] = last[reported.size() + i];
  }

  void leave(const FunctionRequest& update, const Values& left) {
    for (const Slot& slot : update.outputs) {
      const std::string& name = slot.names[0];
      const auto donor = argument_of_.find(name);
      writer_.result(writer_.port(slot, type_of_output(step_.update, name), step_.inputs), left.at(name),
                     donor == argument_of_.end() ? std::nullopt : std::optional(donor->second));
    }
  }

  void leave_reports(const FunctionRequest& micro_step) {
    for (const Slot& slot : micro_step.outputs) {
      const auto report = reports_.find(slot.names[0]);
      if (report == reports_.end()) continue;
      Port port = writer_.port(slot, type_of_output(step_.micro_step, slot.names[0]), step_.reports);
      for (ir::TensorType* seen : {&port.whole, &port.local})
        seen->shape = with_first(step_.micro_steps, std::move(seen->shape));
      port.sharding.dims.insert(port.sharding.dims.begin(), ir::Axes{});
      writer_.result(port, report->second, std::nullopt);
    }
  }

  const Step& step_;
  LoopedPrograms programs_;  // the micro-step, the update
  ModuleWriter writer_;
  std::set<std::string> transient_;  // set to zero by the update, or written before it is read: begins a step as zeros
  Values values_;
  std::map<std::string, HloValue> zeros_;      // by type
  std::map<std::string, size_t> argument_of_;  // state
  size_t next_argument_ = 0;
  Values reports_;  // of all micro-steps
};

}  // namespace

Module write_step(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options) {
  return StepWriter(step, mesh, placement, options).write();
}

}  // namespace megacpp::emit
