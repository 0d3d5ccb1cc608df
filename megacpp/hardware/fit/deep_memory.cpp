// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/deep_memory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/program/memory/buffers.h"
#include "megacpp/program/memory/contents.h"

namespace megacpp::fit {
namespace {

constexpr std::string_view kBlock = "block";
// Of the peak: a plan's highest line may miss so much of what a shallow plan has alive.
constexpr double kMostMissed = 1e-3;

/// Of "block07"; nothing for what is no block.
std::optional<int64_t> block_number(std::string_view block) {
  int64_t number = 0;
  if (!block.starts_with(kBlock)) return std::nullopt;
  const char* const end = block.data() + block.size();
  const auto [at, error] = std::from_chars(block.data() + kBlock.size(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

std::string block_name(int64_t number) { return fmt::format("block{:02}", number); }

/// Blocks [first, first + blocks) one after the other.
struct Run {
  int64_t first = 0, blocks = 0;
};

std::vector<Run> runs_of(const std::set<int64_t>& numbers) {
  std::vector<Run> runs;
  for (const int64_t number : numbers) {
    if (runs.empty() || number > runs.back().first + runs.back().blocks) runs.push_back({.first = number});
    runs.back().blocks = number + 1 - runs.back().first;
  }
  return runs;
}

std::vector<Run> runs_of(const ir::Graph& graph) {
  std::set<int64_t> numbers;
  for (const ir::Node& node : graph.nodes())
    if (const auto number = block_number(ir::scope_block(node.scope))) numbers.insert(*number);
  return runs_of(numbers);
}

// ---- Nodes of several depths that are the same one

/// Indices of nodes by what tells places apart: the scope, with blocks counted from the nearer end of their run, and
/// the op. Blocks that `told_apart` has no place for, in the middle of deeper plans, are left out.
std::map<std::string, std::vector<size_t>> node_places(const ir::Graph& graph, const std::vector<Run>& told_apart) {
  const std::vector<Run> runs = runs_of(graph);
  const auto place_of = [&](const std::string& scope) -> std::optional<std::string> {
    const std::string_view block = ir::scope_block(scope);
    const std::optional<int64_t> number = block_number(block);
    if (!number) return scope;
    const std::string rest = scope.substr(block.size());
    for (size_t r = 0; r < runs.size(); ++r) {
      const int64_t from_start = *number - runs[r].first, from_end = runs[r].blocks - 1 - from_start;
      if (from_start < 0 || from_end < 0) continue;
      const int64_t head = told_apart[r].blocks / 2, tail = told_apart[r].blocks - head;
      if (from_start < head) return fmt::format("{}+{}{}", r, from_start, rest);
      if (from_end < tail) return fmt::format("{}-{}{}", r, from_end, rest);
    }
    return std::nullopt;
  };
  std::map<std::string, std::vector<size_t>> places;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (const auto place = place_of(node.scope)) places[*place + " " + node.op].push_back(n);
  }
  return places;
}

/// Of the same program at the three depths.
struct ProgramAtDepths {
  std::array<const ir::Graph*, 3> graphs;
  std::array<memory::Buffers, 3> buffers;
};

/// A node of the deepest shallow plan, and the same one in that before it.
struct Moment {
  size_t node = 0, node_before = 0;
  int64_t alive = 0;       // temporary bytes, there
  int64_t deep_alive = 0;  // in the model
};

/// The nodes at which bytes are on a line: the one with most in the deepest shallow plan, and that with most in the
/// model.
struct Peaks {
  Moment shallow, deep;
};

/// Calls `visit` with the indices of one node in all three programs. Of nodes of one place those of a deeper program
/// that are too many are left out in the middle.
template <typename Visit>
void for_each_same_node(const ProgramAtDepths& program, const Visit& visit) {
  const std::vector<Run> told_apart = runs_of(*program.graphs[0]);
  std::array<std::map<std::string, std::vector<size_t>>, 3> places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (runs_of(*program.graphs[i]).size() != told_apart.size()) return;
    places[i] = node_places(*program.graphs[i], told_apart);
  }
  for (const auto& [place, first] : places[0]) {
    const std::vector<size_t>&second = places[1][place], &third = places[2][place];
    if (second.size() < first.size() || third.size() < first.size()) continue;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto same = [&](const std::vector<size_t>& nodes) {
        return i < first.size() / 2 ? nodes[i] : nodes[nodes.size() - first.size() + i];
      };
      visit(first[i], same(second), same(third));
    }
  }
}

Peaks peaks_of(const ProgramAtDepths& program, const ShallowDepths& depths, const schedule::Target& target) {
  std::array<std::vector<int64_t>, 3> alive;
  for (size_t i = 0; i < alive.size(); ++i)
    alive[i] = memory::alive_by_node(*program.graphs[i], program.buffers[i], target);
  Peaks peaks;
  for_each_same_node(program, [&](size_t first, size_t second, size_t third) {
    const int64_t a = alive[0][first], b = alive[1][second], c = alive[2][third];
    if (c - b != b - a) return;
    const Moment moment{.node = third, .node_before = second, .alive = c, .deep_alive = depths.extended(b, c)};
    if (moment.alive > peaks.shallow.alive) peaks.shallow = moment;
    if (moment.deep_alive > peaks.deep.deep_alive) peaks.deep = moment;
  });
  return peaks;
}

// ---- What is alive then

/// Puts blocks into the middle of each run, like those of the period that stands there, and counts those behind them
/// on.
class Stretch {
 public:
  /// `runs` of all parts in order.
  Stretch(std::vector<Run> runs, const ShallowDepths& depths)
      : runs_(std::move(runs)), period_(depths.period), put_in_(depths.left_out()) {}

  /// Of the deep model, for a block of the shallow plan: its number, and those of the blocks put in that are like it.
  std::vector<int64_t> numbers_of(int64_t number) const {
    const auto [run, middle] = run_of(number);
    const int64_t shift = static_cast<int64_t>(run) * put_in_;
    if (number < middle) return {number + shift};
    std::vector<int64_t> numbers;
    for (int64_t like = number; number < middle + period_ && like < middle + put_in_; like += period_)
      numbers.push_back(like + shift);
    numbers.push_back(number + shift + put_in_);
    return numbers;
  }

  /// With the numbers that blocks have in the deep model.
  std::string renumbered(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const size_t at = text.find(kBlock);
      result += text.substr(0, at);
      if (at == std::string_view::npos) break;
      text.remove_prefix(at + kBlock.size());
      const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
      const auto number = block_number(fmt::format("{}{}", kBlock, text.substr(0, digits)));
      result += number ? block_name(numbers_of(*number).back()) : std::string(kBlock);
      text.remove_prefix(number ? digits : 0);
    }
    return result;
  }

 private:
  std::pair<size_t, int64_t> run_of(int64_t number) const {
    size_t r = 0;
    while (r + 1 < runs_.size() && number >= runs_[r + 1].first) ++r;
    return {r, runs_[r].first + runs_[r].blocks / 2};
  }

  std::vector<Run> runs_;
  int64_t period_, put_in_;
};

/// Blocks of the deepest shallow plan: of each part of the pipeline those that its programs name.
std::vector<Run> runs_of(const compile::Compiled& compiled) {
  std::vector<Run> all;
  for (const compile::StagePrograms& stage : compiled.stages) {
    std::set<int64_t> numbers;
    for (const compile::Program& program : stage.programs)
      for (const ir::Node& node : program.graph.nodes())
        if (const auto number = block_number(ir::scope_block(node.scope))) numbers.insert(*number);
    const std::vector<Run> runs = runs_of(numbers);
    all.insert(all.end(), runs.begin(), runs.end());
  }
  std::ranges::sort(all, {}, &Run::first);
  return all;
}

/// Bytes outside blocks that are as they are in `like`.
int64_t bytes_like(const memory::Contents& contents, const memory::Item& like) {
  const auto at = std::ranges::find_if(contents.items, [&like](const memory::Item& item) {
    return item.role == like.role && item.letter == like.letter && item.block == like.block;
  });
  return at == contents.items.end() ? like.bytes : at->bytes;
}

/// What the two deepest shallow plans have at one moment: of blocks as often as the model has them, of all else, as of
/// what a pipeline keeps for all blocks together, along its line.
void add_contents(memory::Contents contents, const memory::Contents& before, const ShallowDepths& depths,
                  const Stretch& stretch, memory::MemoryPlan& plan) {
  for (const memory::Item& item : contents.items) {
    const std::optional<int64_t> number = block_number(item.block);
    if (!number)
      plan.items.push_back({item.role, item.letter, item.block, depths.extended(bytes_like(before, item), item.bytes)});
    for (const int64_t deep : number ? stretch.numbers_of(*number) : std::vector<int64_t>())
      plan.items.push_back({item.role, item.letter, block_name(deep), item.bytes});
  }
  plan.padding_bytes = plan.total_bytes;
  for (const memory::Item& item : plan.items) plan.padding_bytes -= item.bytes;
  for (memory::Allocation& allocation : contents.largest) {
    allocation.scope = stretch.renumbered(allocation.scope);
    allocation.what = stretch.renumbered(allocation.what);
    plan.largest.push_back(std::move(allocation));
  }
}

// ---- A stage

/// Bytes of a plan that grow with its depth along a line.
using BytesOf = std::function<int64_t(const memory::MemoryPlan&)>;

int64_t state_bytes(const memory::MemoryPlan& plan) { return plan.state_bytes; }

BytesOf bytes_in(ir::Tier tier, int64_t memory::AwayBytes::*bytes) {
  return [=](const memory::MemoryPlan& plan) {
    const auto at = plan.away.find(tier);
    return at == plan.away.end() ? 0 : at->second.*bytes;
  };
}

class DeepMemory {
 public:
  DeepMemory(const ShallowPlans& shallow, size_t stage, const schedule::Target& target)
      : shallow_(shallow), target_(target) {
    for (const ShallowPlan& plan : shallow.plans) stages_.push_back(&plan.compiled.stages[stage]);
  }

  std::optional<memory::MemoryPlan> run() {
    if (!have_same_programs() || !are_bytes_on_lines()) return std::nullopt;
    const memory::MemoryPlan& last = stages_[2]->memory;
    memory::MemoryPlan plan;
    plan.state_bytes = of(state_bytes);
    for (const auto& [tier, _] : last.away)
      plan.away[tier] = {.bytes = of(bytes_in(tier, &memory::AwayBytes::bytes)),
                         .activation_bytes = of(bytes_in(tier, &memory::AwayBytes::activation_bytes))};
    std::optional<Moment> peak;
    for (size_t p = 0; p < stages_[0]->programs.size(); ++p) {
      ProgramAtDepths program = at_depths(p);
      const Peaks peaks = peaks_of(program, shallow_.depths, target_);
      const memory::ProgramPlan& placed = last.programs[p];
      if (is_missed(placed.lower_bound - peaks.shallow.alive, last)) return std::nullopt;
      const double gaps = placed.lower_bound > 0
                              ? static_cast<double>(placed.temporary_bytes) / static_cast<double>(placed.lower_bound)
                              : 1;
      const int64_t total = plan.state_bytes + std::llround(gaps * static_cast<double>(peaks.deep.deep_alive));
      plan.lower_bound = std::max(plan.lower_bound, plan.state_bytes + peaks.deep.deep_alive);
      if (peak && total <= plan.total_bytes) continue;
      plan.total_bytes = total;
      plan.peak_program = stages_[2]->programs[p].graph.name();
      peak = peaks.deep;
      before_ = std::move(program.buffers[1]);
      buffers_ = std::move(program.buffers[2]);
    }
    if (!peak) return std::nullopt;
    const std::vector<Run> runs = runs_of(shallow_.plans[2].compiled);
    if (std::ssize(runs) != shallow_.depths.parts) return std::nullopt;
    const auto node = [](size_t index) { return static_cast<uint32_t>(index); };
    add_contents(memory::contents_at(last.state, buffers_, node(peak->node), target_),
                 memory::contents_at(stages_[1]->memory.state, before_, node(peak->node_before), target_),
                 shallow_.depths, Stretch(runs, shallow_.depths), plan);
    return plan.padding_bytes < 0 ? std::nullopt : std::optional(std::move(plan));
  }

 private:
  int64_t of(const BytesOf& bytes) const {
    return shallow_.depths.extended(bytes(stages_[1]->memory), bytes(stages_[2]->memory));
  }

  bool is_on_line(const BytesOf& bytes) const {
    const auto at = [&](size_t i) { return bytes(stages_[i]->memory); };
    return at(2) - at(1) == at(1) - at(0);
  }

  bool are_bytes_on_lines() const {
    return is_on_line(state_bytes) && std::ranges::all_of(stages_[2]->memory.away, [this](const auto& away) {
             return is_on_line(bytes_in(away.first, &memory::AwayBytes::bytes)) &&
                    is_on_line(bytes_in(away.first, &memory::AwayBytes::activation_bytes));
           });
  }

  bool have_same_programs() const {
    const auto names_of = [](const compile::StagePrograms& stage) {
      std::vector<std::string> names;
      for (const compile::Program& program : stage.programs) names.push_back(program.graph.name());
      return names;
    };
    return names_of(*stages_[0]) == names_of(*stages_[1]) && names_of(*stages_[0]) == names_of(*stages_[2]);
  }

  ProgramAtDepths at_depths(size_t program) const {
    ProgramAtDepths found;
    for (size_t i = 0; i < stages_.size(); ++i) {
      found.graphs[i] = &stages_[i]->programs[program].graph;
      found.buffers[i] = memory::assign_buffers(*found.graphs[i], target_);
    }
    return found;
  }

  static bool is_missed(int64_t bytes, const memory::MemoryPlan& of) {
    return static_cast<double>(bytes) > kMostMissed * static_cast<double>(of.total_bytes);
  }

  const ShallowPlans& shallow_;
  const schedule::Target& target_;
  std::vector<const compile::StagePrograms*> stages_;  // of the three
  memory::Buffers before_, buffers_;                   // of the program with the peak, in the two deepest
};

}  // namespace

std::optional<memory::MemoryPlan> deep_memory(const ShallowPlans& shallow, size_t stage,
                                              const schedule::Target& target) {
  return DeepMemory(shallow, stage, target).run();
}

}  // namespace megacpp::fit
