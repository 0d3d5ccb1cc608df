// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::train {
namespace {

using base::Json;
using runtime::TraceEvent;

double microseconds(double seconds) { return seconds * 1e6; }

const ir::Node& node_of(const TraceEvent& event) { return event.program->node(ir::NodeId{event.node}); }

// A done says little of itself: what it brings was described at the start.
const ir::Node& described(const TraceEvent& event) {
  const ir::Node& node = node_of(event);
  return node.op == ops::kDoneOp ? event.program->producer(node.operands[0]) : node;
}

// Of the tensors that move: those of this chip, or what they become where that is more.
int64_t bytes_of(const ir::Graph& graph, const ir::Node& node) {
  int64_t in = 0, out = 0;
  for (const ir::ValueId operand : node.operands) in += graph.type(operand).bytes();
  for (const ir::ValueId result : node.results) out += graph.type(result).bytes();
  return std::max(in, out);
}

Json arguments(const TraceEvent& event) {
  const ir::Node& node = described(event);
  Json args = {{"scope", node.scope}, {"program", event.program->name()}, {"node", event.node}};
  if (!ops::op_def(node.op).is_collective) return args;
  args["bytes"] = bytes_of(*event.program, node);
  args["axes"] = node.attrs.text("axes");
  if (node.attrs.has("cause")) args["cause"] = node.attrs.text("cause");
  return args;
}

std::string name_of(const TraceEvent& event) {
  const ir::Node& node = node_of(event);
  const std::string op(ops::started_op(described(event)));
  if (node.op == ops::kStartOp) return "start " + op;
  return node.op == ops::kDoneOp ? "done " + op : op;
}

// The events of one chip.
class ChipWriter {
 public:
  explicit ChipWriter(int64_t chip) : chip_(chip), next_id_(chip << kIdBits) {}

  void add(const TraceEvent& event) {
    Json complete = {{"name", name_of(event)},
                     {"cat", std::string(ir::scope_block(node_of(event).scope))},
                     {"ph", "X"},
                     {"pid", chip_},
                     {"tid", 0},
                     {"ts", microseconds(event.start)},
                     {"dur", microseconds(event.end - event.start)},
                     {"args", arguments(event)}};
    timed_.emplace_back(event.start, std::move(complete));
    const ir::Node& node = node_of(event);
    if (node.op == ops::kStartOp) started_[{event.program, node.results[0].index}] = event.start;
    if (node.op == ops::kDoneOp) add_span(event);
  }

  std::string lines() {
    std::stable_sort(timed_.begin(), timed_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (const auto& [_, event] : timed_) text += ",\n" + base::to_text(event);
    return text;
  }

 private:
  void add_span(const TraceEvent& done) {
    const auto started = started_.find({done.program, node_of(done).operands[0].index});
    if (started == started_.end()) return;
    const int64_t id = next_id_++;
    const auto half = [&](const char* phase, double when) {
      Json event = {{"name", ops::started_op(described(done))},
                    {"cat", "collective"},
                    {"ph", phase},
                    {"id", id},
                    {"pid", chip_},
                    {"tid", 0},
                    {"ts", microseconds(when)}};
      if (*phase == 'b') event["args"] = arguments(done);
      timed_.emplace_back(when, std::move(event));
    };
    half("b", started->second);
    half("e", done.end);
    started_.erase(started);
  }

  static constexpr int kIdBits = 28;  // spans of a chip; together with its number less than JSON's numbers hold exactly

  int64_t chip_;
  int64_t next_id_;                             // different on every chip, whichever process writes it
  std::vector<std::pair<double, Json>> timed_;  // (seconds, event)
  std::map<std::pair<const ir::Graph*, uint32_t>, double> started_;  // (program, first result) -> seconds
};

}  // namespace

std::string chrome_events(const std::vector<ChipTrace>& chips) {
  std::string text;
  for (const ChipTrace& trace : chips) {
    const Json name = {{"name", "process_name"}, {"ph", "M"}, {"pid", trace.chip}, {"args", {{"name", trace.name}}}};
    text += (text.empty() ? "" : ",\n") + base::to_text(name);
    ChipWriter writer(trace.chip);
    for (const TraceEvent& event : trace.events) writer.add(event);
    text += writer.lines();
  }
  return text;
}

std::string to_chrome_trace(std::span<const std::string> events) {
  std::string text;
  for (const std::string& part : events)
    if (!part.empty()) text += (text.empty() ? "\n" : ",\n") + part;
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + text + "\n]}\n";
}

std::vector<ChipTrace> traces_of(const runtime::Executable& run, const ir::Mesh& mesh) {
  std::vector<ChipTrace> chips;
  for (const int64_t chip : run.local_chips()) chips.push_back({chip, ir::chip_name(chip, mesh), run.trace(chip)});
  return chips;
}

}  // namespace megacpp::train
