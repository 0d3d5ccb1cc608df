// SPDX-License-Identifier: Apache-2.0
// Which memory a plan gives to every node of a step, and which nodes an operation of the device may have been: launches
// are compared with the plan, not with what made them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/program/compile/compiled.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/stand_in_cuda.h"

namespace megacpp::testing_support {

using Offsets = std::vector<std::pair<int64_t, size_t>>;      // in the arena: first byte, bytes
using Touched = std::span<const std::pair<int64_t, size_t>>;  // by one node

/// Memory of the arena that one node may touch, or the copies behind a program.
struct Slot {
  std::string what;
  std::vector<std::pair<int64_t, int64_t>> ranges = {};  // offsets: first byte, one behind the last
  size_t written = 0;                                    // of these, the last ones
  bool is_cluster = false;                               // a `fused` node: neighbouring ones may change places

  std::span<const std::pair<int64_t, int64_t>> writes() const { return std::span(ranges).last(written); }
  bool depends_on(const Slot& other) const {
    const auto touches = [](const auto& touched, const auto& changed) {
      return std::ranges::any_of(touched, [&](const auto& one) {
        return std::ranges::any_of(
            changed, [&](const auto& another) { return one.first < another.second && another.first < one.second; });
      });
    };
    return touches(ranges, other.writes()) || touches(other.ranges, writes());
  }

  bool holds(int64_t offset, size_t bytes) const {
    const int64_t end = offset + std::max<int64_t>(static_cast<int64_t>(bytes), 1);
    return std::ranges::any_of(ranges, [&](const auto& range) { return range.first <= offset && end <= range.second; });
  }
};

inline std::vector<Slot> slots_of(const compile::StagePrograms& programs) {
  std::vector<Slot> slots;
  for (const compile::Action& action : programs.step) {
    const ir::Graph& graph = programs.programs[action.program].graph;
    const memory::ProgramPlan& plan = programs.memory.programs[action.program];
    const auto range_of = [&](ir::ValueId value) {
      const int64_t begin = plan.value_offset[value.index];
      const bool is_on_host = plan.value_tier[value.index] == ir::Tier::host;
      return is_on_host ? std::pair<int64_t, int64_t>() : std::pair(begin, begin + graph.type(value).bytes());
    };
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      const ir::Node& node = graph.nodes()[n];
      if (!ops::op_def(node.op).is_work()) continue;
      Slot slot{.what = node.op + " @" + node.scope};
      for (const ir::ValueId value : node.operands) slot.ranges.push_back(range_of(value));
      for (const ir::ValueId value : node.results) slot.ranges.push_back(range_of(value));
      if (const int64_t begin = plan.workspace_offset[n]; begin >= 0)
        slot.ranges.emplace_back(begin, begin + plan.workspace_bytes[n]);
      slot.written = slot.ranges.size() - node.operands.size();
      slot.is_cluster = node.op == "fused";
      slots.push_back(std::move(slot));
    }
    Slot copies{.what = "copies behind " + graph.name()};
    for (const memory::Buffers::Copy& copy : plan.final_copies) {
      copies.ranges.push_back(range_of(copy.from));
      const auto to = std::ranges::find(programs.memory.state, copy.to_state, &memory::StateSlot::name);
      copies.ranges.emplace_back(to->offset, to->offset + to->type.bytes());
    }
    slots.push_back(std::move(copies));
  }
  return slots;
}

/// Nothing where all of an operation is in the arena or none of it, as for staged and fetched tensors; else offsets.
inline std::optional<Offsets> offsets_in(const stand_in_cuda::Operation& operation, uint64_t arena,
                                         int64_t arena_bytes) {
  Offsets offsets;
  for (const stand_in_cuda::Range& range : operation.ranges) {
    if (range.address < arena || range.address >= arena + static_cast<uint64_t>(arena_bytes)) return std::nullopt;
    offsets.emplace_back(static_cast<int64_t>(range.address - arena), range.bytes);
  }
  return offsets;
}

/// Finds for every operation the nodes that made it: nodes run in their order, but neighbouring clusters, several of
/// which one launch may be. Taking for each operation the earliest node that may have made it, none is left over.
class Makers {
 public:
  explicit Makers(std::vector<Slot> slots) : slots_(std::move(slots)), launch_(slots_.size(), -1) {}

  /// False where no node from here on may have made it.
  bool take(const stand_in_cuda::Operation& operation, const Offsets& offsets) {
    std::vector<Touched> entries;
    for (size_t begin = 0; const size_t count : operation.entries) {
      entries.push_back(Touched(offsets).subspan(begin, count));
      begin += count;
    }
    if (entries.empty()) entries.emplace_back(offsets);
    if (operation.kind != stand_in_cuda::Kind::kernel || !operation.name.starts_with("fused"))
      return advance(entries[0], false);
    if (operation.name.starts_with("fused_combine")) return combines(entries);
    ++launches_;
    last_.clear();
    for (size_t e = 0; e < entries.size(); ++e)
      if (e == 0 ? !advance(entries[0], true) : !claim_in_run(entries[e])) return false;
    return true;
  }
  const std::string& here() const { return slots_[at_].what; }

  /// Clusters of a run that depend on one another keep their order and are of different launches.
  void expect_dependencies_kept() const {
    for (size_t first = 0; first < slots_.size(); ++first)
      for (size_t next = first + 1; launch_[first] >= 0 && next < slots_.size() && slots_[next].is_cluster; ++next)
        EXPECT_TRUE(launch_[next] < 0 || launch_[first] < launch_[next] || !slots_[next].depends_on(slots_[first]))
            << slots_[next].what << " runs no later than " << slots_[first].what;
  }

 private:
  bool made(const Slot& slot, Touched touched) const {
    return std::ranges::all_of(touched, [&](const auto& at) { return slot.holds(at.first, at.second); });
  }

  // Where a node of such a kind stands that made it; the whole run of a cluster is still to come then.
  bool advance(Touched touched, bool is_cluster) {
    for (size_t slot = at_; slot < slots_.size(); ++slot) {
      if (slots_[slot].is_cluster != is_cluster || launch_[slot] >= 0 || !made(slots_[slot], touched)) continue;
      at_ = slot;
      if (!is_cluster) return true;
      claim(slot);
      while (at_ > 0 && slots_[at_ - 1].is_cluster) --at_;
      return true;
    }
    return false;
  }

  bool claim_in_run(Touched touched) {
    for (size_t slot = at_; slot < slots_.size() && slots_[slot].is_cluster; ++slot)
      if (launch_[slot] < 0 && made(slots_[slot], touched)) {
        claim(slot);
        return true;
      }
    return false;
  }

  void claim(size_t slot) {
    launch_[slot] = launches_;
    last_.push_back(slot);
  }

  // The second launch of the nodes that the one before was of.
  bool combines(const std::vector<Touched>& entries) const {
    if (entries.size() != last_.size()) return false;
    for (size_t e = 0; e < entries.size(); ++e)
      if (!made(slots_[last_[e]], entries[e])) return false;
    return true;
  }

  std::vector<Slot> slots_;
  std::vector<int> launch_;  // of a cluster, by slot; -1: not yet
  int launches_ = -1;
  size_t at_ = 0;
  std::vector<size_t> last_;  // clusters of the last launch
};

/// Every operation touches nothing but what the plan gives to one node, and a launch of several nodes nothing but what
/// it gives to each, entry by entry. The arena begins at `arena`.
inline void expect_planned_buffers_alone(const compile::StagePrograms& programs, uint64_t arena,
                                         const std::vector<stand_in_cuda::Operation>& operations) {
  Makers makers(slots_of(programs));
  for (const stand_in_cuda::Operation& operation : operations) {
    const auto offsets = offsets_in(operation, arena, programs.memory.total_bytes);
    if (!offsets) {
      EXPECT_EQ(operation.kind, stand_in_cuda::Kind::copy) << operation.name << " is handed memory beside the arena";
      continue;
    }
    const std::string before = makers.here();
    ASSERT_TRUE(makers.take(operation, *offsets))
        << operation.name << " touches memory of no node from " << before << " on";
  }
  makers.expect_dependencies_kept();
}

}  // namespace megacpp::testing_support
