// SPDX-License-Identifier: Apache-2.0
#include "megacpp/emit/module.h"

#include <algorithm>
#include <map>
#include <optional>

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
      : name_(std::move(name)), mesh_(mesh), placement_(placement), options_(options), body_(mesh, next_channel_) {}

  HloWriter& body() { return body_; }

  void add_function(const std::string& name, const ir::Graph& graph) {
    functions_ += write_function(name, graph, mesh_, options_, next_channel_);
  }

  /// How a tensor of a program's type lies, seen by the module.
  Port port(const std::string& name, const ir::TensorType& type, const partition::Placements& placements) const {
    const auto at = placements.find(name);
    Port port{name, type, type, ir::Sharding::replicated(type.shape.size())};
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

std::vector<HloType> output_types(const ir::Graph& graph) {
  std::vector<HloType> types;
  for (const ir::Output& output : graph.outputs()) types.push_back(ops::hlo_type(graph.type(output.value)));
  return types;
}

// The state of one step while it is written: what every name holds at this point.
class StepWriter {
 public:
  StepWriter(const Step& step, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options)
      : step_(step), writer_("step", mesh, placement, options) {}

  Module write() {
    writer_.add_function("micro_step", step_.micro_step);
    writer_.add_function("update", step_.update);
    for (const ir::Graph* graph : {&step_.micro_step, &step_.update}) enter(*graph);
    for (const ir::Output& output : step_.micro_step.outputs())
      if (output.donated.empty() && step_.micro_step.type(output.value).shape.empty()) reported_.push_back(output.name);
    run_micro_steps();
    const std::map<std::string, HloValue> left = call(writer_.body(), "update", step_.update, values_);
    leave(left);
    return writer_.finish();
  }

 private:
  static bool is_batch(const std::string& name) { return name.rfind("batch.", 0) == 0; }

  // Set to zero by the update: begins a step as zeros.
  bool is_transient(const std::string& name) const {
    for (const ir::Output& output : step_.update.outputs()) {
      if (output.donated != name) continue;
      const ir::Node& maker = step_.update.producer(output.value);
      return maker.op == "constant" && maker.attrs.real("value") == 0.0;
    }
    return false;
  }

  void enter(const ir::Graph& graph) {
    for (const ir::NodeId id : graph.inputs()) {
      const std::string& name = name_of(graph, id);
      const ir::TensorType& type = graph.type(graph.node(id).results[0]);
      if (values_.contains(name)) continue;
      if (is_transient(name)) {
        values_[name] = zeros(ops::hlo_type(type));
      } else if (is_batch(name)) {
        Port port = writer_.port(name, type, step_.inputs);
        for (ir::TensorType* whole_or_local : {&port.whole, &port.local})
          whole_or_local->shape.insert(whole_or_local->shape.begin(), step_.micro_steps);
        port.sharding.dims.insert(port.sharding.dims.begin(), ir::Axes{});
        ir::TensorType stacked = type;
        stacked.shape.insert(stacked.shape.begin(), step_.micro_steps);
        values_[name] = writer_.argument(port, stacked);
      } else {
        argument_of_[name] = next_argument_;
        values_[name] = writer_.argument(writer_.port(name, type, step_.inputs), type);
      }
      if (!is_transient(name)) ++next_argument_;
    }
  }

  // One constant for all of a type.
  const HloValue& zeros(const HloType& type) {
    HloValue& known = zeros_[ops::to_text(type)];
    if (known.name.empty()) known = writer_.body().constant(0, type);
    return known;
  }

  // Outputs by name; donated ones by the state's.
  std::map<std::string, HloValue> call(HloWriter& w, const std::string& function, const ir::Graph& graph,
                                       const std::map<std::string, HloValue>& values) const {
    std::vector<HloValue> operands;
    for (const ir::NodeId id : graph.inputs()) operands.push_back(values.at(name_of(graph, id)));
    const std::vector<HloValue> results = w.call(function, operands, output_types(graph));
    std::map<std::string, HloValue> left;
    for (size_t i = 0; i < results.size(); ++i) left[graph.outputs()[i].name] = results[i];
    return left;
  }

  // Loop-carried: the reports so far, then the state that micro-steps add to.
  void run_micro_steps() {
    HloWriter& w = writer_.body();
    std::vector<std::string> carried_names;
    std::vector<HloValue> carried;
    for (const std::string& name : reported_) {
      const HloType type{ops::hlo_type(step_.micro_step.type(*step_.micro_step.find_output(name))).element,
                         {step_.micro_steps}};
      carried.push_back(w.constant(0, type));
    }
    for (const ir::Output& output : step_.micro_step.outputs()) {
      if (output.donated.empty()) continue;
      carried_names.push_back(output.donated);
      carried.push_back(values_.at(output.donated));
    }
    const auto body = [&](const HloValue& micro, const std::vector<HloValue>& given) {
      std::map<std::string, HloValue> values = values_;
      for (size_t i = 0; i < carried_names.size(); ++i) values[carried_names[i]] = given[reported_.size() + i];
      for (auto& [name, value] : values)
        if (is_batch(name)) {
          const ir::Shape one(value.type.shape.begin() + 1, value.type.shape.end());
          value = w.reshape(w.dynamic_slice(value, 0, micro, 1), one);
        }
      const std::map<std::string, HloValue> left = call(w, "micro_step", step_.micro_step, values);
      std::vector<HloValue> next;
      for (size_t i = 0; i < reported_.size(); ++i)
        next.push_back(w.dynamic_update_slice(given[i], w.reshape(left.at(reported_[i]), {1}), micro));
      for (const std::string& name : carried_names) next.push_back(left.at(name));
      return next;
    };
    const std::vector<HloValue> last = w.loop(step_.micro_steps, carried, body);
    for (size_t i = 0; i < reported_.size(); ++i) reports_[reported_[i]] = last[i];
    for (size_t i = 0; i < carried_names.size(); ++i) values_[carried_names[i]] = last[reported_.size() + i];
  }

  void leave(const std::map<std::string, HloValue>& left) {
    for (const ir::Output& output : step_.update.outputs()) {
      if (is_transient(output.name)) continue;
      const ir::TensorType& type = step_.update.type(output.value);
      const auto donor = argument_of_.find(output.donated);
      writer_.result(writer_.port(output.name, type, step_.inputs), left.at(output.name),
                     donor == argument_of_.end() ? std::nullopt : std::optional(donor->second));
    }
    for (const auto& [name, value] : reports_) {
      const ir::TensorType type{ir::DType::f32, value.type.shape};
      writer_.result(writer_.port(name, type, {}), value, std::nullopt);
    }
  }

  const Step& step_;
  ModuleWriter writer_;
  std::map<std::string, HloValue> values_;
  std::map<std::string, HloValue> zeros_;      // by type
  std::map<std::string, size_t> argument_of_;  // state, by name
  size_t next_argument_ = 0;
  std::vector<std::string> reported_;
  std::map<std::string, HloValue> reports_;
};

}  // namespace

Module write_program(const ir::Graph& graph, const ir::Mesh& mesh, const partition::Placements& inputs,
                     const partition::Placements& outputs, Placement placement, const FunctionOptions& options) {
  ModuleWriter writer("program", mesh, placement, options);
  writer.add_function("program", graph);
  std::vector<HloValue> operands;
  std::map<std::string, size_t> argument_of;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = name_of(graph, id);
    const ir::TensorType& type = graph.type(graph.node(id).results[0]);
    argument_of[name] = operands.size();
    operands.push_back(writer.argument(writer.port(name, type, inputs), type));
  }
  const std::vector<HloValue> results = writer.body().call("program", operands, output_types(graph));
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
