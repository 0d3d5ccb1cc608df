// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/block_loop.h"

#include <algorithm>
#include <map>
#include <set>

#include "megacpp/core/base/repeat.h"

namespace megacpp::emit {
namespace {

std::string block_of(const Outlined& outlined, const Piece& piece) {
  return std::string(ir::scope_block(outlined.graph.nodes()[piece.nodes[0]].scope));
}

// Blocks in order, each with what it is in all graphs.
struct Sequence {
  std::vector<std::string> blocks;
  std::vector<size_t> kinds;
};

Sequence sequence_of(std::span<const Outlined* const> graphs) {
  Sequence sequence;
  std::unordered_map<std::string, std::vector<size_t>> pieces;  // block -> graph and kind of each of its pieces
  for (size_t g = 0; g < graphs.size(); ++g)
    for (const Piece& piece : graphs[g]->pieces) {
      const std::string block = block_of(*graphs[g], piece);
      if (!block.starts_with("block")) continue;
      std::vector<size_t>& own = pieces[block];
      if (own.empty()) sequence.blocks.push_back(block);
      own.insert(own.end(), {g, piece.kind});
    }
  std::map<std::vector<size_t>, size_t> known;
  for (const std::string& block : sequence.blocks)
    sequence.kinds.push_back(known.emplace(pieces.at(block), known.size()).first->second);
  return sequence;
}

// Where a value is made inside a pass.
struct Made {
  size_t iteration = 0, piece = 0, leaf = 0;
};

class PassFinder {
 public:
  PassFinder(const Outlined& outlined, const BlockLoop& loop) : outlined_(outlined), loop_(loop) {}

  std::vector<Pass> run() {
    std::vector<Pass> passes;
    const size_t count = outlined_.pieces.size();
    for (size_t at = 0; at < count; ++at) {
      if (!place_of(at)) continue;
      size_t end = at;
      while (end < count && place_of(end)) ++end;
      Pass pass{.first = at};
      if (has_order(pass, end) && is_wired(pass)) passes.push_back(std::move(pass));
      at = end - 1;
    }
    return passes;
  }

 private:
  std::optional<size_t> place_of(size_t piece) const {
    const auto at = loop_.places.find(block_of(outlined_, outlined_.pieces[piece]));
    return at == loop_.places.end() ? std::nullopt : std::optional(at->second);
  }

  // Every iteration is one period of the loop, with the same pieces in the same order.
  bool has_order(Pass& pass, size_t end) const {
    const size_t pieces = end - pass.first;
    if (pieces % loop_.count != 0) return false;
    pass.width = pieces / loop_.count;
    pass.count = loop_.count;
    pass.is_descending = *place_of(pass.first) >= loop_.period;
    for (size_t i = 0; i < pieces; ++i) {
      const size_t place = *place_of(pass.first + i), same = *place_of(pass.first + i % pass.width);
      const Piece& first = outlined_.pieces[pass.first + i % pass.width];
      if (place / loop_.period != pass.place(i / pass.width) || place % loop_.period != same % loop_.period ||
          outlined_.pieces[pass.first + i].kind != first.kind)
        return false;
    }
    return true;
  }

  bool is_wired(Pass& pass) const {
    std::unordered_map<uint32_t, Made> made;
    pass.leaves.resize(pass.width);
    for (size_t j = 0; j < pass.count; ++j)
      for (size_t q = 0; q < pass.width; ++q) {
        const Piece& piece = outlined_.pieces[pass.first + j * pass.width + q];
        pass.leaves[q].resize(piece.leaves.size());
        for (size_t l = 0; l < piece.leaves.size(); ++l) {
          made[piece.leaves[l].index] = {j, q, l};
          pass.leaves[q][l].values.push_back(piece.leaves[l]);
        }
      }
    pass.reads.resize(pass.width);
    for (size_t q = 0; q < pass.width; ++q)
      for (size_t r = 0; r < outlined_.pieces[pass.first + q].reads.size(); ++r) {
        const std::optional<PassRead> read = wiring_of(pass, made, q, r);
        if (!read) return false;
        if (read->from == PassRead::From::previous_iteration) {
          PassLeaf& leaf = pass.leaves[read->piece][read->leaf];
          if (leaf.is_carried && leaf.entering != read->values[0]) return false;  // one place, two first values
          leaf.is_carried = true;
          leaf.entering = read->values[0];
        }
        pass.reads[q].push_back(*read);
      }
    return true;
  }

  static std::optional<PassRead> wiring_of_made(const std::vector<ir::ValueId>& values,
                                                const std::vector<const Made*>& makers) {
    // Of the second iteration: only there do the same and the previous iteration differ from before the pass.
    const Made* second = makers[1];
    if (second == nullptr || second->iteration > 1) return std::nullopt;
    const bool is_same = second->iteration == 1;
    if (!is_same && makers[0] != nullptr) return std::nullopt;
    for (size_t j = is_same ? 0 : 1; j < values.size(); ++j)
      if (makers[j] == nullptr || makers[j]->iteration + (is_same ? 0 : 1) != j || makers[j]->piece != second->piece ||
          makers[j]->leaf != second->leaf)
        return std::nullopt;
    return PassRead{is_same ? PassRead::From::same_iteration : PassRead::From::previous_iteration, second->piece,
                    second->leaf, values};
  }

  std::optional<PassRead> wiring_of(const Pass& pass, const std::unordered_map<uint32_t, Made>& made, size_t q,
                                    size_t r) const {
    std::vector<ir::ValueId> values;
    std::vector<const Made*> makers;
    for (size_t j = 0; j < pass.count; ++j) {
      values.push_back(outlined_.pieces[pass.first + j * pass.width + q].reads[r]);
      const auto at = made.find(values.back().index);
      makers.push_back(at == made.end() ? nullptr : &at->second);
    }
    if (std::ranges::any_of(makers, [](const Made* maker) { return maker != nullptr; }))
      return wiring_of_made(values, makers);
    const bool is_one = std::ranges::all_of(values, [&](ir::ValueId value) { return value == values[0]; });
    return PassRead{is_one ? PassRead::From::always : PassRead::From::each, 0, 0, values};
  }

  const Outlined& outlined_;
  const BlockLoop& loop_;
};

// The names of a pass's values, one for each iteration.
template <typename NameOf>
std::vector<std::string> in_order_of_blocks(const Pass& pass, const std::vector<ir::ValueId>& values,
                                            const NameOf& name_of) {
  std::vector<std::string> names(pass.count);
  for (size_t j = 0; j < pass.count; ++j) names[pass.place(j)] = name_of(values[j]);
  return names;
}

bool are_distinct(const std::vector<std::string>& names) {
  const std::set<std::string> distinct(names.begin(), names.end());
  return distinct.size() == names.size() && !distinct.contains("");
}

}  // namespace

Outlined outlined(const ir::Graph& graph) { return {graph, outline(graph)}; }

std::optional<BlockLoop> find_block_loop(std::span<const Outlined* const> graphs) {
  const Sequence sequence = sequence_of(graphs);
  const base::Repeat repeat = base::best_repeat(sequence.kinds);
  if (repeat.count < 2) return std::nullopt;
  BlockLoop loop{repeat.period, repeat.count, {}};
  for (size_t i = 0; i < repeat.period * repeat.count; ++i) loop.places[sequence.blocks[repeat.first + i]] = i;
  return loop;
}

std::vector<Pass> passes_of(const Outlined& outlined, const BlockLoop& loop) {
  return PassFinder(outlined, loop).run();
}

std::vector<std::vector<std::string>> stacked_inputs(const Outlined& outlined, std::span<const Pass> passes) {
  std::vector<std::vector<std::string>> stacks;
  for (const Pass& pass : passes)
    for (const std::vector<PassRead>& reads : pass.reads)
      for (const PassRead& read : reads) {
        if (read.from != PassRead::From::each) continue;
        std::vector<std::string> names = in_order_of_blocks(pass, read.values, [&](ir::ValueId value) {
          const ir::Node& maker = outlined.graph.producer(value);
          return maker.op == ir::kInputOp ? maker.attrs.text("name") : "";
        });
        if (are_distinct(names)) stacks.push_back(std::move(names));
      }
  return stacks;
}

std::vector<std::vector<std::string>> stacked_reports(const Outlined& outlined, std::span<const Pass> passes) {
  std::unordered_map<uint32_t, std::string> reports;  // by value
  for (const ir::Output& output : outlined.graph.outputs())
    if (output.donated.empty()) reports.emplace(output.value.index, output.name);
  std::vector<std::vector<std::string>> stacks;
  for (const Pass& pass : passes)
    for (const std::vector<PassLeaf>& leaves : pass.leaves)
      for (const PassLeaf& leaf : leaves) {
        std::vector<std::string> names = in_order_of_blocks(pass, leaf.values, [&](ir::ValueId value) {
          const auto at = reports.find(value.index);
          return at == reports.end() ? "" : at->second;
        });
        if (are_distinct(names)) stacks.push_back(std::move(names));
      }
  return stacks;
}

}  // namespace megacpp::emit
