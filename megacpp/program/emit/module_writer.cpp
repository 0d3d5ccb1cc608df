// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/module_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/emit/padding.h"

namespace megacpp::emit {

using ops::HloType;
using ops::HloValue;

void ModuleWriter::add_function(const FunctionRequest& request) {
  functions_ += write_function(request, mesh_, options_, next_channel_);
}

Port ModuleWriter::port(const std::string& name, const ir::TensorType& type,
                        const partition::Placements& placements) const {
  const auto at = placements.find(name);
  Port port{name, {}, type, type, ir::Sharding::replicated(type.shape.size())};
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

Port ModuleWriter::stack_port(const std::vector<std::string>& names, int64_t size, const ir::TensorType& type,
                              const partition::Placements& placements) const {
  const Port first = this->port(names[0], type, placements);
  Port port = first;
  for (ir::TensorType* seen : {&port.whole, &port.local}) seen->shape = with_first(size, std::move(seen->shape));
  port.sharding.dims.insert(port.sharding.dims.begin(), ir::Axes{});
  for (const std::string& name : names) {
    const Port other = this->port(name, type, placements);
    MEGACPP_CHECK(other.sharding == first.sharding) << name << " is sharded otherwise than " << names[0];
  }
  if (names.size() > 1) port.stacked = names;
  return port;
}

Port ModuleWriter::port(const Slot& slot, const ir::TensorType& type, const partition::Placements& placements) const {
  return slot.is_stack() ? stack_port(slot.names, static_cast<int64_t>(slot.names.size()), type, placements)
                         : port(slot.names[0], type, placements);
}

HloValue ModuleWriter::argument(const Port& port, const ir::TensorType& type) {
  const HloValue value{fmt::format("%local{}", module_.arguments.size()), seen_type(port)};
  module_.arguments.push_back(port);
  if (placement_ == Placement::xla) return without_padding(body_, value, type.shape, port.sharding);
  return body_.reshape(value, type.shape);
}

void ModuleWriter::result(const Port& port, const HloValue& value, std::optional<size_t> donor) {
  if (donor) donors_[*donor] = module_.results.size();
  module_.results.push_back(port);
  results_.push_back(placement_ == Placement::xla ? with_padding(body_, value, port.sharding)
                                                  : body_.reshape(value, seen_type(port).shape));
}

Module ModuleWriter::finish() {
  const bool is_manual = placement_ == Placement::megacpp && mesh_.chips() > 1;
  std::string text = fmt::format("module @{} attributes {{mhlo.num_partitions = {} : i32}} {{\n", name_, mesh_.chips());
  if (mesh_.chips() > 1) text += mesh_text();
  text += fmt::format("func.func public @main({}) -> ({}) {{\n", arguments_text(is_manual), results_text());
  text += is_manual ? manual_text() : body_.text() + fmt::format("  return {} : {}\n", names(), types(true));
  module_.text = text + "}\n" + functions_ + "}\n";
  return std::move(module_);
}

HloType ModuleWriter::seen_type(const Port& port) const {
  return ops::hlo_type(placement_ == Placement::megacpp ? port.local : port.whole);
}

std::string ModuleWriter::mesh_text() const {
  std::vector<std::string> axes;
  for (const ir::MeshAxis& axis : mesh_.axes()) axes.push_back(fmt::format("\"{}\"={}", axis.name, axis.size));
  return fmt::format("sdy.mesh @mesh = <[{}]>\n", fmt::join(axes, ", "));
}

std::string ModuleWriter::sharding_of(const Port& port) const {
  return mesh_.chips() == 1 ? "" : "sdy.sharding = #sdy.sharding" + ops::sharding_text(port.sharding, mesh_);
}

std::string ModuleWriter::arguments_text(bool is_manual) const {
  std::vector<std::string> all;
  for (size_t i = 0; i < module_.arguments.size(); ++i) {
    const Port& port = module_.arguments[i];
    std::vector<std::string> attrs;
    if (const std::string sharding = sharding_of(port); !sharding.empty()) attrs.push_back(sharding);
    if (const auto at = donors_.find(i); at != donors_.end())
      attrs.push_back(fmt::format("tf.aliasing_output = {} : i32", at->second));
    all.push_back(fmt::format("%{}{}: {}{}", is_manual ? "whole" : "local", i, ops::to_text(ops::hlo_type(port.whole)),
                              attrs.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attrs, ", "))));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string ModuleWriter::results_text() const {
  std::vector<std::string> all;
  for (const Port& port : module_.results) {
    const std::string sharding = sharding_of(port);
    all.push_back(ops::to_text(ops::hlo_type(port.whole)) + (sharding.empty() ? "" : " {" + sharding + "}"));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string ModuleWriter::manual_text() const {
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

std::string ModuleWriter::names() const {
  std::vector<std::string> all;
  for (const HloValue& value : results_) all.push_back(value.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string ModuleWriter::types(bool whole) const {
  std::vector<std::string> all;
  for (const Port& port : module_.results)
    all.push_back(ops::to_text(whole ? ops::hlo_type(port.whole) : seen_type(port)));
  return fmt::format("{}", fmt::join(all, ", "));
}

const std::string& name_of(const ir::Graph& graph, ir::NodeId input) { return graph.node(input).attrs.text("name"); }

std::vector<std::string> input_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.inputs()) names.push_back(name_of(graph, id));
  return names;
}

std::vector<std::string> output_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

}  // namespace megacpp::emit
