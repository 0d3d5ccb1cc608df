// SPDX-License-Identifier: Apache-2.0
#include "megacpp/emit/module.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/emit/padding.h"
#include "megacpp/ops/hlo_writer.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::emit {
namespace {

using ops::HloType;
using ops::HloValue;
using ops::HloWriter;

// What stands between the module's arguments and its results.
class ModuleWriter {
 public:
  ModuleWriter(std::string name, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options)
      : name_(std::move(name)),
        mesh_(mesh),
        placement_(placement),
        options_(options),
        body_(mesh, next_channel_, options.has_mixed_products) {}

  HloWriter& body() { return body_; }

  void add_function(const FunctionRequest& request) {
    functions_ += write_function(request, mesh_, options_, next_channel_);
  }

  /// How a tensor of a program's type lies, seen by the module.
  Port port(const std::string& name, const ir::TensorType& type, const partition::Placements& placements) const {
    const auto at = placements.find(name);
    Port port{name, {}, false, type, type, ir::Sharding::replicated(type.shape.size())};
    if (at == placements.end()) return port;
    port.sharding = at->second.sharding;
    if (placement_ == Placement::xla) {
      port.sharding.unreduced.clear();  // the global program has no parts of sums
      port.local.shape = ir::local_shape(type.shape, port.sharding, mesh_);
      port.whole.shape = padded_shape(type.shape, port.sharding, mesh_);
      return port;
    }
    for (size_t d = 0; d < type.shape.size(); ++d) port.whole.shape[d] *= mesh_.size(port.sharding.dims[d]);
    if (port.sharding.unreduced.empty()) return port;
    port.local.shape.insert(port.local.shape.begin(), 1);
    port.whole.shape.insert(port.whole.shape.begin(), mesh_.size(port.sharding.unreduced));
    port.sharding.dims.insert(port.sharding.dims.begin(), port.sharding.unreduced);
    port.sharding.unreduced.clear();
    return port;
  }

  /// The same for tensors of this type that are stacked along a new first dimension.
  Port stack_port(const std::vector<std::string>& names, int64_t size, const ir::TensorType& type,
                  const partition::Placements& placements) const {
    const Port first = this->port(names[0], type, placements);
    Port port = first;
    for (ir::TensorType* seen : {&port.whole, &port.local}) seen->shape.insert(seen->shape.begin(), size);
    port.sharding.dims.insert(port.sharding.dims.begin(), ir::Axes{});
    for (const std::string& name : names) {
      const Port other = this->port(name, type, placements);
      MEGACPP_CHECK(other.sharding == first.sharding) << name << " lies otherwise than " << names[0];
    }
    if (names.size() > 1) port.stacked = names;
    return port;
  }

  /// Adds an argument and returns it as a program reads it.
  HloValue argument(const Port& port, const ir::TensorType& type) {
    const HloValue value{fmt::format("%local{}", module_.arguments.size()), seen_type(port)};
    module_.arguments.push_back(port);
    if (placement_ == Placement::xla) return without_padding(body_, value, type.shape, port.sharding);
    return body_.reshape(value, type.shape);
  }

  /// `donor`: the argument whose buffer it takes over.
  void result(const Port& port, const HloValue& value, std::optional<size_t> donor) {
    if (donor) donors_[*donor] = module_.results.size();
    module_.results.push_back(port);
    results_.push_back(placement_ == Placement::xla ? with_padding(body_, value, port.sharding)
                                                    : body_.reshape(value, seen_type(port).shape));
  }

  Module finish() {
    const bool is_manual = placement_ == Placement::megacpp && mesh_.chips() > 1;
    std::string text =
        fmt::format("module @{} attributes {{mhlo.num_partitions = {} : i32}} {{\n", name_, mesh_.chips());
    if (mesh_.chips() > 1) text += mesh_text();
    text += fmt::format("func.func public @main({}) -> ({}) {{\n", arguments_text(is_manual), results_text());
    text += is_manual ? manual_text() : body_.text() + fmt::format("  return {} : {}\n", names(), types(true));
    module_.text = text + "}\n" + functions_ + "}\n";
    return std::move(module_);
  }

 private:
  HloType seen_type(const Port& port) const {
    return ops::hlo_type(placement_ == Placement::megacpp ? port.local : port.whole);
  }

  std::string mesh_text() const {
    std::vector<std::string> axes;
    for (const ir::MeshAxis& axis : mesh_.axes()) axes.push_back(fmt::format("\"{}\"={}", axis.name, axis.size));
    return fmt::format("sdy.mesh @mesh = <[{}]>\n", fmt::join(axes, ", "));
  }

  std::string sharding_of(const Port& port) const {
    return mesh_.chips() == 1 ? "" : "sdy.sharding = #sdy.sharding" + ops::sharding_text(port.sharding, mesh_);
  }

  std::string arguments_text(bool is_manual) const {
    std::vector<std::string> all;
    for (size_t i = 0; i < module_.arguments.size(); ++i) {
      const Port& port = module_.arguments[i];
      std::vector<std::string> attrs;
      if (const std::string sharding = sharding_of(port); !sharding.empty()) attrs.push_back(sharding);
      if (const auto at = donors_.find(i); at != donors_.end())
        attrs.push_back(fmt::format("tf.aliasing_output = {} : i32", at->second));
      all.push_back(fmt::format("%{}{}: {}{}", is_manual ? "whole" : "local", i,
                                ops::to_text(ops::hlo_type(port.whole)),
                                attrs.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attrs, ", "))));
    }
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::string results_text() const {
    std::vector<std::string> all;
    for (const Port& port : module_.results) {
      const std::string sharding = sharding_of(port);
      all.push_back(ops::to_text(ops::hlo_type(port.whole)) + (sharding.empty() ? "" : " {" + sharding + "}"));
    }
    return fmt::format("{}", fmt::join(all, ", "));
  }

  // The body over local shapes, all axes in our hands.
  std::string manual_text() const {
    std::vector<std::string> whole, local, in, out, axes, types_in, returned;
    for (size_t i = 0; i < module_.arguments.size(); ++i) {
      const Port& port = module_.arguments[i];
      whole.push_back(fmt::format("%whole{}", i));
      local.push_back(fmt::format("%local{}: {}", i, ops::to_text(ops::hlo_type(port.local))));
      types_in.push_back(ops::to_text(ops::hlo_type(port.whole)));
      in.push_back(ops::sharding_text(port.sharding, mesh_));
    }
    for (size_t i = 0; i < module_.results.size(); ++i) {
      out.push_back(ops::sharding_text(module_.results[i].sharding, mesh_));
      returned.push_back(fmt::format("%all{}{}", module_.results.size() == 1 ? "" : "#",
                                     module_.results.size() == 1 ? "" : std::to_string(i)));
    }
    for (const ir::MeshAxis& axis : mesh_.axes()) axes.push_back("\"" + axis.name + "\"");
    return fmt::format(
        "  %all{} = sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] manual_axes={{{}}} ({}) {{\n{}"
        "  sdy.return {} : {}\n  }} : ({}) -> ({})\n  return {} : {}\n",
        module_.results.size() == 1 ? "" : fmt::format(":{}", module_.results.size()), fmt::join(whole, ", "),
        fmt::join(in, ", "), fmt::join(out, ", "), fmt::join(axes, ", "), fmt::join(local, ", "), body_.text(), names(),
        types(false), fmt::join(types_in, ", "), types(true), fmt::join(returned, ", "), types(true));
  }

  std::string names() const {
    std::vector<std::string> all;
    for (const HloValue& value : results_) all.push_back(value.name);
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::string types(bool whole) const {
    std::vector<std::string> all;
    for (const Port& port : module_.results)
      all.push_back(ops::to_text(whole ? ops::hlo_type(port.whole) : seen_type(port)));
    return fmt::format("{}", fmt::join(all, ", "));
  }

  const std::string name_;
  const ir::Mesh& mesh_;
  const Placement placement_;
  const FunctionOptions& options_;
  int64_t next_channel_ = 1;
  HloWriter body_;
  std::string functions_;
  Module module_;
  std::vector<HloValue> results_;
  std::map<size_t, size_t> donors_;  // argument -> result
};

const std::string& name_of(const ir::Graph& graph, ir::NodeId input) { return graph.node(input).attrs.text("name"); }

// Both programs of a step, cut alike, and which of their state is stacked.
struct RolledStep {
  Outlined micro_step, update;
  std::vector<Pass> micro_passes = {}, update_passes = {};
  std::vector<std::vector<std::string>> stacks = {};  // by blocks, disjoint

  RolledStep(const Step& step, const FunctionOptions& options)
      : micro_step(outlined(step.micro_step)), update(outlined(step.update)) {
    const Outlined* const both[] = {&micro_step, &update};
    const std::optional<BlockLoop> loop = options.is_rolled ? find_block_loop(both) : std::nullopt;
    if (!loop) return;
    micro_passes = passes_of(micro_step, *loop);
    update_passes = passes_of(update, *loop);
    std::set<std::string> taken;
    for (auto stacks_of_program : {stacked_inputs(micro_step, micro_passes), stacked_inputs(update, update_passes)})
      for (std::vector<std::string>& names : stacks_of_program) {
        if (std::ranges::any_of(names, [&](const std::string& name) { return taken.contains(name); })) continue;
        taken.insert(names.begin(), names.end());
        stacks.push_back(std::move(names));
      }
  }
};

// The state of one step while it is written: what every slot holds at this point, by the first of its names.
class StepWriter {
 public:
  StepWriter(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options)
      : step_(step), rolled_(step, options), writer_("step", mesh, placement, options) {
    for (const std::vector<std::string>& names : rolled_.stacks)
      for (const std::string& name : names) stack_of_[name] = &names;
    for (const ir::Graph* graph : {&step.micro_step, &step.update})
      for (const ir::Output& output : graph->outputs())
        MEGACPP_CHECK(output.donated.empty() || output.donated == output.name)
            << "state " << output.donated << " leaves as " << output.name;
    for (const ir::Output& output : step.update.outputs()) {
      const ir::Node& maker = step.update.producer(output.value);
      if (!output.donated.empty() && maker.op == "constant" && maker.attrs.real("value") == 0.0)
        transient_.insert(output.donated);
    }
  }

  Module write() {
    const FunctionRequest micro_step{"micro_step", rolled_.micro_step, rolled_.micro_passes,
                                     slots(names_of_inputs(step_.micro_step)),
                                     slots(names_of_outputs(step_.micro_step))};
    const FunctionRequest update{"update", rolled_.update, rolled_.update_passes, slots(names_of_inputs(step_.update)),
                                 slots(names_of_outputs(step_.update))};
    for (const FunctionRequest* request : {&micro_step, &update}) {
      writer_.add_function(*request);
      enter(*request);
    }
    run_micro_steps(micro_step);
    leave(update, call(writer_.body(), update, values_));
    return writer_.finish();
  }

 private:
  using Values = std::map<std::string, HloValue>;

  static bool is_batch(const std::string& name) { return name.rfind("batch.", 0) == 0; }

  static std::vector<std::string> names_of_inputs(const ir::Graph& graph) {
    std::vector<std::string> names;
    for (const ir::NodeId id : graph.inputs()) names.push_back(name_of(graph, id));
    return names;
  }

  // What a step needs of a program: state it replaces, unless it begins every step as zeros anyway, and reports.
  std::vector<std::string> names_of_outputs(const ir::Graph& graph) const {
    const bool is_update = &graph == &step_.update;
    std::vector<std::string> names;
    for (const ir::Output& output : graph.outputs()) {
      const bool is_scalar = graph.type(output.value).shape.empty();
      if (is_update ? !transient_.contains(output.name) : !output.donated.empty() || is_scalar)
        names.push_back(output.name);
    }
    return names;
  }

  std::vector<Slot> slots(const std::vector<std::string>& names) const {
    std::vector<Slot> slots;
    std::map<const std::vector<std::string>*, size_t> met;  // how many of a stack's tensors
    for (const std::string& name : names) {
      const auto stack = stack_of_.find(name);
      if (stack == stack_of_.end())
        slots.push_back({{name}});
      else if (++met[stack->second] == 1)
        slots.push_back({*stack->second});
    }
    for (const auto& [stack, count] : met)
      MEGACPP_CHECK(count == stack->size()) << "only " << count << " tensors of the stack of " << (*stack)[0];
    return slots;
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
        ir::TensorType stacked = type;
        stacked.shape.insert(stacked.shape.begin(), step_.micro_steps);
        values_[name] = writer_.argument(writer_.stack_port({name}, step_.micro_steps, type, step_.inputs), stacked);
      } else {
        argument_of_[name] = next_argument_;
        values_[name] = writer_.argument(port_of(slot, type), slot_type(slot, type));
      }
      ++next_argument_;
    }
  }

  static const ir::TensorType& type_of_output(const ir::Graph& graph, const std::string& name) {
    return graph.type(*graph.find_output(name));
  }

  Port port_of(const Slot& slot, const ir::TensorType& type) const {
    return slot.is_stack() ? writer_.stack_port(slot.names, static_cast<int64_t>(slot.names.size()), type, step_.inputs)
                           : writer_.port(slot.names[0], type, step_.inputs);
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
    for (const Slot& slot : request.outputs)
      types.push_back(ops::hlo_type(slot_type(slot, type_of_output(request.program.graph, slot.names[0]))));
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
    for (const Slot& slot : request.outputs)
      (values_.contains(slot.names[0]) ? state : reported).push_back(slot.names[0]);
    for (const std::string& name : reported)
      carried.push_back(
          w.constant(0, {ops::hlo_type(type_of_output(step_.micro_step, name)).element, {step_.micro_steps}}));
    for (const std::string& name : state) carried.push_back(values_.at(name));
    const auto body = [&](const HloValue& micro, const std::vector<HloValue>& given) {
      Values values = values_;
      for (size_t i = 0; i < state.size(); ++i) values[state[i]] = given[reported.size() + i];
      for (auto& [name, value] : values)
        if (is_batch(name)) {
          const ir::Shape one(value.type.shape.begin() + 1, value.type.shape.end());
          value = w.reshape(w.dynamic_slice(value, 0, micro, 1), one);
        }
      const Values left = call(w, request, values);
      std::vector<HloValue> next;
      for (size_t i = 0; i < reported.size(); ++i)
        next.push_back(w.dynamic_update_slice(given[i], w.reshape(left.at(reported[i]), {1}), micro));
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
      writer_.result(port_of(slot, type_of_output(step_.update, name)), left.at(name),
                     donor == argument_of_.end() ? std::nullopt : std::optional(donor->second));
    }
    for (const auto& [name, value] : reports_) {
      const ir::TensorType type{type_of_output(step_.micro_step, name).dtype, value.type.shape};
      Port port = writer_.port(name, type, {});
      port.is_per_micro_step = true;
      writer_.result(port, value, std::nullopt);
    }
  }

  const Step& step_;
  RolledStep rolled_;
  ModuleWriter writer_;
  std::unordered_map<std::string, const std::vector<std::string>*> stack_of_;  // by name of state
  std::set<std::string> transient_;  // set to zero by the update: begins a step as zeros
  Values values_;
  std::map<std::string, HloValue> zeros_;      // by type
  std::map<std::string, size_t> argument_of_;  // state
  size_t next_argument_ = 0;
  Values reports_;
};

}  // namespace

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

Module write_step(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options) {
  return StepWriter(step, mesh, placement, options).write();
}

}  // namespace megacpp::emit
