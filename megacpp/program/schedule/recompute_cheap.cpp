// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/recompute_cheap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>

#include "megacpp/program/schedule/tile_builder.h"
#include "megacpp/program/schedule/value_lives.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;
using ops::TileInstruction;
using ops::TileOutput;

constexpr std::string_view kEquality[] = {"eq", "ne"};
constexpr std::string_view kComparisons[] = {"lt", "le", "gt", "ge", "eq", "ne"};

// An output of a cluster that readers could compute themselves.
struct Candidate {
  size_t output;
  std::vector<uint32_t> readers;  // those that would; ascending
  bool is_dropped;                // nobody else reads it
};

// What clusters become: by node. One without results is gone.
using Changes = std::map<uint32_t, TileCluster>;

// A value that is held for another time: until node `to` instead of `from`.
struct LifeChange {
  int64_t bytes;
  int64_t from, to;
};

class Recomputer {
 public:
  Recomputer(const ir::Graph& graph, double ops_per_byte)
      : graph_(graph), ops_per_byte_(ops_per_byte), lives_(graph), clusters_(graph.nodes().size()) {
    for (uint32_t n = 0; n < clusters_.size(); ++n)
      if (graph.nodes()[n].op == "fused") clusters_[n] = take_apart(graph.nodes()[n]);
  }

  ir::Graph run() {
    for (uint32_t n = 0; n < clusters_.size(); ++n)
      if (clusters_[n]) consider(n);
    return rebuild();
  }

 private:
  // All at once first: together they may do with one operand.
  void consider(uint32_t maker) {
    const std::vector<Candidate> candidates = candidates_of(maker);
    if (candidates.empty() || try_to_change(maker, candidates)) return;
    // The last first: outputs before one that is dropped keep their numbers.
    for (size_t c = candidates.size(); c-- > 0;) try_to_change(maker, {candidates[c]});
  }

  // ---- which values

  std::vector<Candidate> candidates_of(uint32_t maker) const {
    std::vector<Candidate> candidates;
    const TileCluster& cluster = *clusters_[maker];
    for (size_t o = 0; o < cluster.results.size(); ++o) {
      if (!can_be_imported(cluster, o)) continue;
      const ValueId value = cluster.results[o];
      int64_t held = -1;  // by those that cannot compute it
      for (const uint32_t reader : lives_.readers(value))
        if (!can_compute(reader, maker, value)) held = std::max(held, held_by(reader));
      if (lives_.is_output(value)) continue;
      Candidate candidate{.output = o, .readers = {}, .is_dropped = held < 0};
      for (const uint32_t reader : lives_.readers(value))
        if (static_cast<int64_t>(reader) > held) candidate.readers.push_back(reader);
      if (!candidate.readers.empty()) candidates.push_back(std::move(candidate));
    }
    return candidates;
  }

  // Registers are f32 and unrounded: a number cut to an integer or a truth value must be read from where it was stored.
  bool can_be_imported(const TileCluster& cluster, size_t o) const {
    const TileOutput& output = cluster.program.outputs[o];
    const TileInstruction& made = cluster.program.instructions[static_cast<size_t>(output.reg)];
    const bool is_cut = !ir::is_float(graph_.type(cluster.results[o]).dtype) &&
                        made.kind == TileInstruction::Kind::scalar && made.op->name == "convert";
    return output.kind == TileOutput::Kind::store && !is_cut;
  }

  // Until when a reader keeps the value.
  int64_t held_by(uint32_t reader) const {
    const ir::Node& node = graph_.nodes()[reader];
    return node.op == "reshape" ? std::max<int64_t>(reader, lives_.held_until(node.results[0])) : reader;
  }

  bool can_compute(uint32_t reader, uint32_t maker, ValueId value) const {
    if (!clusters_[reader] || clusters_[reader]->shape != clusters_[maker]->shape) return false;
    const TileCluster& cluster = *clusters_[reader];
    size_t operand = 0;
    for (size_t r = 0; r < cluster.program.instructions.size(); ++r) {
      if (cluster.program.instructions[r].kind != TileInstruction::Kind::input) continue;
      const size_t i = operand++;
      if (cluster.operands[i] != value) continue;
      if (!cluster.is_whole(i)) return false;
      if (ir::is_narrow(graph_.type(value).dtype) && is_read_by(cluster, static_cast<int>(r), kEquality)) return false;
    }
    return true;
  }

  // Whether one of these ops has the register as an operand, converted or not.
  static bool is_read_by(const TileCluster& cluster, int reg, std::span<const std::string_view> names) {
    return std::ranges::any_of(cluster.program.instructions, [&](const TileInstruction& each) {
      if (each.kind != TileInstruction::Kind::scalar || std::ranges::count(names, std::string_view(each.op->name)) == 0)
        return false;
      return std::ranges::any_of(each.args,
                                 [&](int arg) { return ops::looked_through_converts(cluster.program, arg) == reg; });
    });
  }

  // ---- what would become of clusters

  bool try_to_change(uint32_t maker, const std::vector<Candidate>& candidates) {
    const Changes changes = changes_for(maker, candidates);
    for (const auto& [n, cluster] : changes)
      if (n != maker && !cluster.is_within_limits()) return false;
    if (!pays(changes) || holds_more(maker, candidates, changes)) return false;
    apply(maker, changes);
    return true;
  }

  Changes changes_for(uint32_t maker, const std::vector<Candidate>& candidates) const {
    std::map<uint32_t, std::set<ValueId>> computed;  // by reader
    std::set<ValueId> dropped;
    for (const Candidate& candidate : candidates) {
      const ValueId value = clusters_[maker]->results[candidate.output];
      for (const uint32_t reader : candidate.readers) computed[reader].insert(value);
      if (candidate.is_dropped) dropped.insert(value);
    }
    Changes changes;
    for (const auto& [reader, values] : computed) changes.emplace(reader, computing(reader, maker, values));
    if (!dropped.empty()) changes.emplace(maker, without(*clusters_[maker], dropped));
    return changes;
  }

  // Whether the maker compares an output before it is rounded: the answer may be another for the number that is stored.
  bool is_compared_unrounded(const TileCluster& maker, size_t o) const {
    return ir::is_narrow(graph_.type(maker.results[o]).dtype) &&
           is_read_by(maker, ops::looked_through_converts(maker.program, maker.program.outputs[o].reg), kComparisons);
  }

  // The reader, with these values of the maker's computed in its program. Other values of it that the reader reads
  // anyway are a place to start from.
  TileCluster computing(uint32_t reader, uint32_t maker, const std::set<ValueId>& values) const {
    const TileCluster &from = *clusters_[maker], &into = *clusters_[reader];
    std::vector<int64_t> whole(into.shape.size());
    std::iota(whole.begin(), whole.end(), int64_t{0});
    std::map<ValueId, int> made;         // by value that the reader computes: its register in the maker
    std::map<int, ValueId> read_anyway;  // by register of the maker
    for (size_t o = 0; o < from.results.size(); ++o) {
      const int reg = from.program.outputs[o].reg;
      if (values.contains(from.results[o]))
        made.emplace(from.results[o], reg);
      else if (from.program.outputs[o].kind == TileOutput::Kind::store && reads_whole(into, from.results[o]) &&
               !is_compared_unrounded(from, o))
        read_anyway.emplace(reg, from.results[o]);
    }
    TileBuilder builder(into.shape);
    const auto from_read = [&](int reg) -> std::optional<int> {
      const auto at = read_anyway.find(reg);
      return at == read_anyway.end() ? std::nullopt : std::optional(builder.load(at->second, whole));
    };
    const std::vector<std::optional<ValueId>> inputs = inputs_of(into);
    builder.import_outputs(into, [&](int reg) -> std::optional<int> {
      const std::optional<ValueId>& input = inputs[static_cast<size_t>(reg)];
      if (!input || !made.contains(*input)) return std::nullopt;
      return builder.import(from, {made.at(*input)}, from_read)[0];
    });
    return builder.take(into.scope, into.role);
  }

  static bool reads_whole(const TileCluster& cluster, ValueId value) {
    for (size_t i = 0; i < cluster.operands.size(); ++i)
      if (cluster.operands[i] == value && cluster.is_whole(i)) return true;
    return false;
  }

  // By register: the operand that it loads.
  static std::vector<std::optional<ValueId>> inputs_of(const TileCluster& cluster) {
    std::vector<std::optional<ValueId>> inputs;
    size_t operand = 0;
    for (const TileInstruction& instruction : cluster.program.instructions)
      inputs.push_back(instruction.kind == TileInstruction::Kind::input ? std::optional(cluster.operands[operand++])
                                                                        : std::nullopt);
    return inputs;
  }

  static TileCluster without(const TileCluster& cluster, const std::set<ValueId>& dropped) {
    TileCluster rest = cluster;
    rest.results.clear();
    rest.program.outputs.clear();
    for (size_t o = 0; o < cluster.results.size(); ++o) {
      if (dropped.contains(cluster.results[o])) continue;
      rest.results.push_back(cluster.results[o]);
      rest.program.outputs.push_back(cluster.program.outputs[o]);
    }
    TileBuilder builder(cluster.shape);
    builder.import_outputs(rest, [](int) -> std::optional<int> { return std::nullopt; });
    return builder.take(cluster.scope, cluster.role);
  }

  // ---- whether it is better

  int64_t moved_bytes(const TileCluster& cluster) const {
    int64_t bytes = 0;
    for (const ValueId operand : cluster.operands) bytes += graph_.type(operand).bytes();
    for (const ValueId result : cluster.results) bytes += graph_.type(result).bytes();
    return bytes;
  }

  bool pays(const Changes& changes) const {
    int64_t bytes = 0;
    double ops = 0;
    for (const auto& [n, cluster] : changes) {
      bytes += moved_bytes(*clusters_[n]) - moved_bytes(cluster);
      ops += (static_cast<double>(cluster.ops()) - static_cast<double>(clusters_[n]->ops())) *
             static_cast<double>(ir::num_elements(cluster.shape));
    }
    return bytes > 0 && ops <= ops_per_byte_ * static_cast<double>(bytes);
  }

  // Whether more bytes are alive at any node: looked at right behind the ends of lives, where that may begin.
  bool holds_more(uint32_t maker, const std::vector<Candidate>& candidates, const Changes& changes) const {
    std::vector<LifeChange> shorter, longer;
    for (const Candidate& candidate : candidates) {
      const ValueId value = clusters_[maker]->results[candidate.output];
      shorter.push_back({graph_.type(value).bytes(), lives_.last_read(value), last_use_left(maker, candidate)});
    }
    std::map<ValueId, int64_t> needed;  // until which node
    for (const auto& [n, cluster] : changes)
      for (const ValueId operand : cluster.operands) needed[operand] = n;
    for (const auto& [value, until] : needed) {
      const int64_t last = lives_.last_read(value);
      if (until <= last) continue;
      if (lives_.is_replaced(value)) return true;
      if (!lives_.is_input(value)) longer.push_back({graph_.type(value).bytes(), last, until});
    }
    const auto is_too_much_at = [&](int64_t node) {
      int64_t bytes = 0;
      for (const LifeChange& life : longer) bytes += life.from < node && node <= life.to ? life.bytes : 0;
      for (const LifeChange& life : shorter) bytes -= life.to < node && node <= life.from ? life.bytes : 0;
      return bytes > 0;
    };
    const auto is_too_much_behind = [&](const LifeChange& life) { return is_too_much_at(life.from + 1); };
    return std::any_of(longer.begin(), longer.end(), is_too_much_behind) ||
           std::any_of(shorter.begin(), shorter.end(), is_too_much_behind);
  }

  // Until when the value is held by those that go on reading it.
  int64_t last_use_left(uint32_t maker, const Candidate& candidate) const {
    const ValueId value = clusters_[maker]->results[candidate.output];
    int64_t held = static_cast<int64_t>(maker) - (candidate.is_dropped ? 1 : 0);
    for (const uint32_t reader : lives_.readers(value))
      if (!std::binary_search(candidate.readers.begin(), candidate.readers.end(), reader))
        held = std::max(held, held_by(reader));
    return held;
  }

  // ---- doing it

  void apply(uint32_t maker, const Changes& changes) {
    const ir::Role role = clusters_[maker]->role;
    for (const auto& [n, cluster] : changes) {
      for (const ValueId operand : cluster.operands) {
        if (lives_.last_read(operand) < static_cast<int64_t>(n)) keep_as(role, operand);
        lives_.add_reader(operand, n);
      }
      for (const ValueId operand : clusters_[n]->operands)
        if (std::find(cluster.operands.begin(), cluster.operands.end(), operand) == cluster.operands.end())
          lives_.remove_reader(operand, n);
      clusters_[n] = cluster;
      is_changed_.insert(n);
    }
  }

  // What is kept in place of an activation is one itself.
  void keep_as(ir::Role role, ValueId value) {
    const uint32_t n = graph_.value(value).producer.index;
    if (graph_.nodes()[n].role != ir::Role::temporary) return;
    kept_as_[n] = role;
    if (clusters_[n]) clusters_[n]->role = role;
  }

  ir::Graph rebuild() {
    Rewriter rewriter(graph_);
    for (uint32_t n = 0; n < clusters_.size(); ++n) {
      if (!is_changed_.contains(n)) {
        ir::Node node = graph_.nodes()[n];
        if (const auto kept = kept_as_.find(n); kept != kept_as_.end()) node.role = kept->second;
        rewriter.copy(node);
      } else if (!clusters_[n]->results.empty()) {
        append_fused(rewriter, graph_, *clusters_[n]);
      }
    }
    return rewriter.finish();
  }

  const ir::Graph& graph_;
  double ops_per_byte_;
  ValueLives lives_;
  std::vector<std::optional<TileCluster>> clusters_;  // by node
  std::set<uint32_t> is_changed_;
  std::map<uint32_t, ir::Role> kept_as_;  // by node: those that were temporary
};

}  // namespace

ir::Graph recompute_cheap(const ir::Graph& graph, double ops_per_byte) { return Recomputer(graph, ops_per_byte).run(); }

}  // namespace megacpp::schedule
