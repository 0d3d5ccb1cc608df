// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/outline.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::emit {
namespace {

// Attributes that only tell people where a node comes from.
bool is_remark(const std::string& name) { return name == "cause"; }

std::string text_of(const ir::Attr& attr) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<int64_t>>)
          return fmt::format("[{}]", fmt::join(value, ","));
        else
          return fmt::format("{}", value);
      },
      attr);
}

class Outliner {
 public:
  explicit Outliner(const ir::Graph& graph) : graph_(graph), piece_of_(graph.nodes().size(), SIZE_MAX) {}

  std::vector<Piece> run() {
    cut();
    connect();
    find_recomputes();
    name_kinds();
    return std::move(pieces_);
  }

 private:
  bool is_input(size_t node) const { return graph_.nodes()[node].op == ir::kInputOp; }

  void cut() {
    const std::vector<bool> is_prelude = preludes();
    for (size_t n = 0; n < graph_.nodes().size(); ++n)
      if (is_prelude[n] && !is_input(n)) {
        if (pieces_.empty()) pieces_.emplace_back();
        piece_of_[n] = 0;
        pieces_[0].nodes.push_back(n);
      }
    for (size_t n = 0; n < graph_.nodes().size(); ++n)
      if (!is_prelude[n] && !is_input(n)) put(n);
  }

  // What is made outside blocks, of constants and the batch alone, comes before all blocks wherever it stands: a table
  // of positions would cut in two the block before whose first use it was put.
  std::vector<bool> preludes() const {
    std::vector<bool> is_prelude(graph_.nodes().size());
    for (size_t n = 0; n < is_prelude.size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      is_prelude[n] = is_input(n) ? node.role == ir::Role::batch
                                  : !ir::scope_block(node.scope).starts_with("block") &&
                                        std::ranges::all_of(node.operands, [&](ir::ValueId operand) {
                                          return is_prelude[graph_.value(operand).producer.index];
                                        });
    }
    return is_prelude;
  }

  void put(size_t n) {
    const std::string_view block = ir::scope_block(graph_.nodes()[n].scope);
    const auto last = last_of_.find(block);
    const bool is_met = last != last_of_.end();
    if (!is_met || !can_join(n, last->second)) {
      last_of_[block] = pieces_.size();
      pieces_.push_back({.is_return = is_met});
    }
    piece_of_[n] = last_of_[block];
    pieces_[piece_of_[n]].nodes.push_back(n);
  }

  // Later nodes may join a backward pass when it has all they read; what is computed again, to be forgotten in between,
  // may not join the forward pass.
  bool can_join(size_t node, size_t piece) const {
    if (piece + 1 == pieces_.size()) return true;
    if (!pieces_[piece].is_return) return false;
    return std::ranges::all_of(graph_.nodes()[node].operands, [&](ir::ValueId operand) {
      const size_t maker = piece_of_[graph_.value(operand).producer.index];
      return maker == SIZE_MAX || maker <= piece;
    });
  }

  void connect() {
    std::vector<bool> leaves(graph_.values().size(), false);
    for (const ir::Output& output : graph_.outputs()) leaves[output.value.index] = true;
    for (size_t p = 0; p < pieces_.size(); ++p) {
      std::unordered_map<uint32_t, bool> is_read;
      for (const size_t n : pieces_[p].nodes)
        for (const ir::ValueId operand : graph_.nodes()[n].operands) {
          if (piece_of_[graph_.value(operand).producer.index] == p) continue;
          if (is_read.emplace(operand.index, true).second) pieces_[p].reads.push_back(operand);
          leaves[operand.index] = true;
        }
    }
    for (Piece& piece : pieces_)
      for (const size_t n : piece.nodes)
        for (const ir::ValueId result : graph_.nodes()[n].results)
          if (leaves[result.index]) piece.leaves.push_back(result);
  }

  // As common subexpressions are found: values that are computed alike get one number. What is made of constants alone
  // may be computed anywhere, and what elementwise work alone reads is made again in its fusion at no cost.
  void find_recomputes() {
    numbers_.resize(graph_.values().size());
    std::iota(numbers_.begin(), numbers_.end(), size_t{0});
    is_constant_.resize(numbers_.size());
    is_again_.resize(numbers_.size());
    for (Piece& piece : pieces_)
      for (const size_t n : piece.nodes)
        if (number(n, piece.is_return) && is_costly(graph_.nodes()[n])) piece.recomputes = true;
  }

  // Whether the node, or what makes one of its operands, computes again what an earlier piece has computed. What only
  // has the elements of such a value in another order or dtype counts as it.
  bool number(size_t n, bool is_return) {
    const ir::Node& node = graph_.nodes()[n];
    const auto of_operand = [](const std::vector<bool>& what) {
      return [&what](ir::ValueId operand) { return what[operand.index]; };
    };
    const size_t first = firsts_.emplace(expression(node), n).first->second;
    const bool is_constant = std::ranges::all_of(node.operands, of_operand(is_constant_));
    const bool is_again = is_return && piece_of_[first] != piece_of_[n] && !is_constant;
    const bool reads_again = std::ranges::any_of(node.operands, of_operand(is_again_));
    const bool is_through = reads_again && ops::op_def(node.op).has_operand_elements;
    for (size_t r = 0; r < node.results.size(); ++r) {
      numbers_[node.results[r].index] = numbers_[graph_.nodes()[first].results[r].index];
      is_constant_[node.results[r].index] = is_constant;
      is_again_[node.results[r].index] = is_again || is_through;
    }
    return is_again || reads_again;
  }

  static bool is_costly(const ir::Node& node) {
    const ops::OpDef& op = ops::op_def(node.op);
    const bool moves = op.work == ops::Work::traffic || op.work == ops::Work::elementwise;
    return !moves || op.is_collective || op.runs_over_positions;
  }

  std::string expression(const ir::Node& node) const {
    std::string text = node.op;
    for (const ir::ValueId operand : node.operands) text += fmt::format(" {}", numbers_[operand.index]);
    return text + attributes(node);
  }

  static std::string attributes(const ir::Node& node) {
    std::string text;
    for (const auto& [name, attr] : node.attrs.entries())
      if (!is_remark(name)) text += fmt::format(" {}={}", name, text_of(attr));
    return text;
  }

  // What a piece computes, with its values numbered from its own start.
  std::string describe(const Piece& piece) const {
    std::unordered_map<uint32_t, size_t> numbers;
    std::string text = fmt::format("{}{}", piece.is_return ? "return;" : "", piece.recomputes ? "recompute;" : "");
    for (const ir::ValueId value : piece.reads) {
      text += ir::to_string(graph_.type(value)) + ";";
      numbers.emplace(value.index, numbers.size());
    }
    for (const size_t n : piece.nodes) {
      const ir::Node& node = graph_.nodes()[n];
      text += node.op;
      for (const ir::ValueId operand : node.operands) text += fmt::format(" {}", numbers.at(operand.index));
      text += attributes(node);
      for (const ir::ValueId result : node.results) numbers.emplace(result.index, numbers.size());
      text += ";";
    }
    for (const ir::ValueId value : piece.leaves) text += fmt::format(" {}", numbers.at(value.index));
    return text;
  }

  void name_kinds() {
    std::unordered_map<std::string, size_t> kinds;
    for (size_t p = 0; p < pieces_.size(); ++p) {
      pieces_[p].kind = kinds.emplace(describe(pieces_[p]), p).first->second;
      if (pieces_[p].kind != p) pieces_[p].is_repeated = pieces_[pieces_[p].kind].is_repeated = true;
    }
  }

  const ir::Graph& graph_;
  std::vector<size_t> piece_of_;                          // by node
  std::unordered_map<std::string_view, size_t> last_of_;  // block -> its last piece
  std::vector<Piece> pieces_;
  std::vector<size_t> numbers_;                     // by value, the same for what is computed alike
  std::vector<bool> is_constant_, is_again_;        // by value
  std::unordered_map<std::string, size_t> firsts_;  // expression -> the first node that computes it
};

}  // namespace

std::vector<Piece> outline(const ir::Graph& graph) { return Outliner(graph).run(); }

}  // namespace megacpp::emit
