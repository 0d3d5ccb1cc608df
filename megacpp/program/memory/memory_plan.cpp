// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/memory_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/memory/contents.h"
#include "megacpp/program/memory/offsets.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"

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
      const ir::Tier tier = ops::tier_of(node);
      const auto [at, is_new] =
          by_name.emplace(name, StateSlot{name, graph->type(node.results[0]), node.role, node.scope, tier});
      MEGACPP_CHECK(is_new || at->second.type == graph->type(node.results[0]))
          << "state '" << name << "' is " << to_string(at->second.type) << " in one program and "
          << to_string(graph->type(node.results[0])) << " in another";
      MEGACPP_CHECK(at->second.tier == tier) << "state '" << name << "' is in another memory in another program";
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
      int64_t& end = slot.tier == ir::Tier::device ? plan_.state_bytes : plan_.away[slot.tier].bytes;
      slot.offset = end;
      offset_of_[slot.name] = slot.offset;
      const int64_t bytes = aligned_in(slot.tier, target_.bytes_of_state(slot.type));
      end += bytes;
      if (slot.tier != ir::Tier::device && slot.role == ir::Role::activation)
        plan_.away[slot.tier].activation_bytes += bytes;
    }
    for (const ir::Graph* graph : programs_) plan_program(*graph);
    size_t peak = 0;
    int64_t most_alive = 0;
    std::map<ir::Tier, int64_t> away_temporaries;
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      for (const auto& [tier, bytes] : plan_.programs[p].away_bytes)
        away_temporaries[tier] = std::max(away_temporaries[tier], bytes);
      if (plan_.programs[p].temporary_bytes > plan_.programs[peak].temporary_bytes) peak = p;
      most_alive = std::max(most_alive, plan_.programs[p].lower_bound);
    }
    for (const auto& [tier, bytes] : away_temporaries) plan_.away[tier] += {bytes, bytes};
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
                        .value_tier = {},
                        .workspace_offset = {},
                        .workspace_bytes = {},
                        .final_copies = buffers.final_copies,
                        .away_bytes = {}};
    const Busiest most = busiest(temporaries_in(ir::Tier::device, buffers));
    if (target_.places_itself) {
      program.temporary_bytes = program.lower_bound = most.bytes;
      for (const ir::Tier tier : tiers_away(buffers))
        program.away_bytes[tier] = busiest(temporaries_in(tier, buffers)).bytes;
    } else {
      place_buffers(buffers, program);
    }
    plan_.programs.push_back(std::move(program));
    laid_out_.push_back({std::move(buffers), most.time});
  }

  int64_t aligned_in(ir::Tier tier, int64_t bytes) const {
    return aligned_bytes(bytes, std::max(target_.alignment, ir::record(tier).alignment));
  }

  // Tiers in which temporaries stand, but for the device's.
  static std::set<ir::Tier> tiers_away(const Buffers& buffers) {
    std::set<ir::Tier> tiers;
    for (const Buffer& buffer : buffers.buffers)
      if (buffer.state.empty() && buffer.tier != ir::Tier::device) tiers.insert(buffer.tier);
    return tiers;
  }

  std::vector<Interval> temporaries_in(ir::Tier tier, const Buffers& buffers) const {
    std::vector<Interval> intervals;
    for (const Buffer& buffer : buffers.buffers)
      if (buffer.state.empty() && buffer.tier == tier)
        intervals.push_back({aligned_in(tier, buffer.bytes), buffer.first, buffer.last});
    return intervals;
  }

  void place_buffers(const Buffers& buffers, ProgramPlan& program) {
    const Placement placement = place(temporaries_in(ir::Tier::device, buffers));
    std::map<ir::Tier, Placement> placed = {{ir::Tier::device, placement}};
    std::map<ir::Tier, int64_t> state_ends = {{ir::Tier::device, plan_.state_bytes}};
    for (const ir::Tier tier : tiers_away(buffers)) {
      placed[tier] = place(temporaries_in(tier, buffers));
      state_ends[tier] = plan_.away[tier].bytes;
      program.away_bytes[tier] = placed[tier].bytes;
    }
    std::vector<int64_t> offsets;  // by buffer
    std::map<ir::Tier, size_t> next;
    for (const Buffer& buffer : buffers.buffers)
      offsets.push_back(buffer.state.empty()
                            ? state_ends.at(buffer.tier) + placed.at(buffer.tier).offsets[next[buffer.tier]++]
                            : offset_of_.at(buffer.state));
    for (size_t v = 0; v < buffers.buffer_of.size(); ++v) {
      const auto b = static_cast<size_t>(buffers.buffer_of[v]);
      program.value_offset.push_back(offsets[b] + buffers.place_in[v]);
      program.value_tier.push_back(buffers.buffers[b].tier);
    }
    for (const int b : buffers.workspace_of) {
      program.workspace_offset.push_back(b < 0 ? -1 : offsets[static_cast<size_t>(b)]);
      program.workspace_bytes.push_back(b < 0 ? 0 : buffers.buffers[static_cast<size_t>(b)].bytes);
    }
    program.temporary_bytes = placement.bytes;
    program.lower_bound = placement.lower_bound;
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
  std::vector<LaidOutProgram> laid_out_;
  MemoryPlan plan_;
};

}  // namespace

AwayBytes& AwayBytes::operator+=(const AwayBytes& other) {
  bytes += other.bytes;
  activation_bytes += other.activation_bytes;
  return *this;
}

AwayBytes MemoryPlan::of_host() const {
  AwayBytes sum;
  for (const auto& [tier, bytes] : away)
    if (ir::record(tier).is_of_host) sum += bytes;
  return sum;
}

const StateSlot* MemoryPlan::find_state(const std::string& name) const {
  for (const StateSlot& slot : state)
    if (slot.name == name) return &slot;
  return nullptr;
}

MemoryPlan plan_memory(const std::vector<const ir::Graph*>& programs, const schedule::Target& target) {
  return Planner(programs, target).run();
}

}  // namespace megacpp::memory
