// SPDX-License-Identifier: Apache-2.0
#include "megacpp/memory/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/memory/contents.h"
#include "megacpp/memory/offsets.h"
#include "megacpp/ops/host_copy.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::memory {
namespace {

// Where state stands in the collectives that move it, so that what moves together can be contiguous.
std::map<std::string, size_t> rank_moved_state(const std::vector<const ir::Graph*>& programs) {
  std::map<std::string, size_t> ranks;
  for (const ir::Graph* graph : programs) {
    std::map<uint32_t, std::string> replaced;  // by value
    for (const ir::Output& output : graph->outputs())
      if (!output.donated.empty()) replaced[output.value.index] = output.donated;
    for (const ir::Node& node : graph->nodes()) {
      if (!ops::op_def(node.op).is_collective) continue;
      for (const ir::ValueId operand : node.operands)
        if (const ir::Node& from = graph->producer(operand); from.op == ir::kInputOp)
          ranks.emplace(from.attrs.text("name"), ranks.size());
      for (const ir::ValueId result : node.results)
        if (const auto at = replaced.find(result.index); at != replaced.end()) ranks.emplace(at->second, ranks.size());
    }
  }
  return ranks;
}

std::vector<StateSlot> collect_state(const std::vector<const ir::Graph*>& programs) {
  std::map<std::string, StateSlot> by_name;
  for (const ir::Graph* graph : programs) {
    for (const ir::NodeId id : graph->inputs()) {
      const ir::Node& node = graph->node(id);
      const std::string& name = node.attrs.text("name");
      const Space space = ops::is_in_host_memory(node) ? Space::host : Space::device;
      const auto [at, is_new] =
          by_name.emplace(name, StateSlot{name, graph->type(node.results[0]), node.role, node.scope, space});
      MEGACPP_CHECK(is_new || at->second.type == graph->type(node.results[0]))
          << "state '" << name << "' is " << to_string(at->second.type) << " in one program and "
          << to_string(graph->type(node.results[0])) << " in another";
      MEGACPP_CHECK(at->second.space == space) << "state '" << name << "' is in another memory in another program";
    }
  }
  std::vector<StateSlot> state;
  for (auto& [_, slot] : by_name) state.push_back(std::move(slot));
  const std::map<std::string, size_t> ranks = rank_moved_state(programs);
  const auto place = [&ranks](const StateSlot& slot) {
    const auto at = ranks.find(slot.name);
    return std::pair(slot.role, at == ranks.end() ? SIZE_MAX : at->second);
  };
  std::stable_sort(state.begin(), state.end(),
                   [&](const StateSlot& a, const StateSlot& b) { return place(a) < place(b); });
  return state;
}

struct LaidOutProgram {
  Buffers buffers;
  uint32_t peak_node = 0;  // where most temporary bytes are alive
};

class Planner {
 public:
  Planner(const std::vector<const ir::Graph*>& programs, const schedule::Target& target)
      : programs_(programs), target_(target) {}

  MemoryPlan run() {
    plan_.state = collect_state(programs_);
    for (StateSlot& slot : plan_.state) {
      int64_t& end = slot.space == Space::host ? host_state_bytes_ : plan_.state_bytes;
      slot.offset = end;
      offset_of_[slot.name] = slot.offset;
      const int64_t bytes = aligned_bytes(target_.bytes_of_state(slot.type), target_.alignment);
      end += bytes;
      if (slot.space == Space::host && slot.role == ir::Role::activation) plan_.host_activation_bytes += bytes;
    }
    for (const ir::Graph* graph : programs_) plan_program(*graph);
    size_t peak = 0;
    int64_t most_alive = 0;
    int64_t host_temporaries = 0;
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      host_temporaries = std::max(host_temporaries, plan_.programs[p].host_bytes);
      if (plan_.programs[p].temporary_bytes > plan_.programs[peak].temporary_bytes) peak = p;
      most_alive = std::max(most_alive, plan_.programs[p].lower_bound);
    }
    plan_.host_bytes = host_state_bytes_ + host_temporaries;
    plan_.host_activation_bytes += host_temporaries;
    plan_.lower_bound = plan_.state_bytes + most_alive;
    plan_.total_bytes = plan_.state_bytes;
    if (!programs_.empty()) {
      plan_.total_bytes += plan_.programs[peak].temporary_bytes;
      plan_.peak_program = programs_[peak]->name();
      itemise(laid_out_[peak]);
    }
    return std::move(plan_);
  }

 private:
  void plan_program(const ir::Graph& graph) {
    Buffers buffers = assign_buffers(graph, target_);
    ProgramPlan program{.value_offset = {},
                        .value_space = {},
                        .workspace_offset = {},
                        .workspace_bytes = {},
                        .final_copies = buffers.final_copies};
    const Busiest most = busiest(temporaries_in(Space::device, buffers));
    if (target_.places_itself) {
      program.temporary_bytes = program.lower_bound = most.bytes;
      program.host_bytes = busiest(temporaries_in(Space::host, buffers)).bytes;
    } else {
      place_buffers(buffers, program);
    }
    plan_.programs.push_back(std::move(program));
    laid_out_.push_back({std::move(buffers), most.time});
  }

  std::vector<Interval> temporaries_in(Space space, const Buffers& buffers) const {
    std::vector<Interval> intervals;
    for (const Buffer& buffer : buffers.buffers)
      if (buffer.state.empty() && buffer.space == space)
        intervals.push_back({aligned_bytes(buffer.bytes, target_.alignment), buffer.first, buffer.last});
    return intervals;
  }

  void place_buffers(const Buffers& buffers, ProgramPlan& program) const {
    const Placement placement = place(temporaries_in(Space::device, buffers));
    const Placement on_host = place(temporaries_in(Space::host, buffers));
    std::vector<int64_t> offsets;  // by buffer
    size_t next = 0, next_on_host = 0;
    for (const Buffer& buffer : buffers.buffers) {
      if (!buffer.state.empty())
        offsets.push_back(offset_of_.at(buffer.state));
      else if (buffer.space == Space::host)
        offsets.push_back(host_state_bytes_ + on_host.offsets[next_on_host++]);
      else
        offsets.push_back(plan_.state_bytes + placement.offsets[next++]);
    }
    for (size_t v = 0; v < buffers.buffer_of.size(); ++v) {
      const auto b = static_cast<size_t>(buffers.buffer_of[v]);
      program.value_offset.push_back(offsets[b] + buffers.place_in[v]);
      program.value_space.push_back(buffers.buffers[b].space);
    }
    for (const int b : buffers.workspace_of) {
      program.workspace_offset.push_back(b < 0 ? -1 : offsets[static_cast<size_t>(b)]);
      program.workspace_bytes.push_back(b < 0 ? 0 : buffers.buffers[static_cast<size_t>(b)].bytes);
    }
    program.temporary_bytes = placement.bytes;
    program.lower_bound = placement.lower_bound;
    program.host_bytes = on_host.bytes;
  }

  void itemise(const LaidOutProgram& program) {
    Contents contents = contents_at(plan_.state, program.buffers, program.peak_node, target_);
    plan_.padding_bytes = plan_.total_bytes - contents.bytes;
    plan_.items = std::move(contents.items);
    plan_.largest = std::move(contents.largest);
  }

  const std::vector<const ir::Graph*>& programs_;
  const schedule::Target& target_;
  std::map<std::string, int64_t> offset_of_;
  int64_t host_state_bytes_ = 0;  // with alignment
  std::vector<LaidOutProgram> laid_out_;
  MemoryPlan plan_;
};

}  // namespace

const StateSlot* MemoryPlan::find_state(const std::string& name) const {
  for (const StateSlot& slot : state)
    if (slot.name == name) return &slot;
  return nullptr;
}

MemoryPlan plan_memory(const std::vector<const ir::Graph*>& programs, const schedule::Target& target) {
  return Planner(programs, target).run();
}

}  // namespace megacpp::memory
