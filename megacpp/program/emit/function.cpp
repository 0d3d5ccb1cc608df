// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/emit/custom_call.h"
#include "megacpp/program/emit/function_values.h"
#include "megacpp/program/emit/loop_writer.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::emit {
namespace {

using ops::HloType;
using ops::HloValue;
using ops::HloWriter;
using Names = std::vector<HloValue>;  // by value of the graph; empty names where it is not at hand

class FunctionWriter {
 public:
  FunctionWriter(const FunctionRequest& request, const ir::Mesh& mesh, const FunctionOptions& options,
                 int64_t& next_channel)
      : request_(request),
        graph_(request.program.graph),
        pieces_(request.program.pieces),
        mesh_(mesh),
        options_(options),
        next_channel_(next_channel),
        values_(request) {}

  std::string write() {
    HloWriter w = new_writer();
    auto pass = request_.passes.begin();
    for (size_t p = 0; p < pieces_.size();) {
      if (pass != request_.passes.end() && pass->first == p) {
        write_loop(w, graph_, *pass, values_,
                   [&](size_t piece, const std::vector<HloValue>& operands) { return call(w, piece, operands); });
        p = pass++->last();
      } else {
        write_piece(w, p++);
      }
    }
    std::vector<HloValue> results;
    for (const Slot& slot : request_.outputs) results.push_back(values_.result(w, slot));
    return function_text(request_.name, values_.arguments(), w, results) + called_;
  }

 private:
  HloWriter new_writer() { return {mesh_, next_channel_, options_.compiler}; }

  static std::string function_text(const std::string& name, const std::vector<HloValue>& arguments,
                                   const HloWriter& body, const std::vector<HloValue>& results) {
    std::vector<std::string> entering, leaving, types;
    for (const HloValue& argument : arguments)
      entering.push_back(fmt::format("{}: {}", argument.name, ops::to_text(argument.type)));
    for (const HloValue& result : results) {
      leaving.push_back(result.name);
      types.push_back(ops::to_text(result.type));
    }
    return fmt::format("func.func private @{}({}) -> ({}) {{\n{}  return {}{}{}\n}}\n", name, fmt::join(entering, ", "),
                       fmt::join(types, ", "), body.text(), fmt::join(leaving, ", "), types.empty() ? "" : " : ",
                       fmt::join(types, ", "));
  }

  std::string name_of(size_t piece) const { return fmt::format("{}_piece{}", request_.name, piece); }

  void write_piece(HloWriter& w, size_t p) {
    const Piece& piece = pieces_[p];
    for (const ir::ValueId value : piece.reads) values_.at_hand(w, value);
    if (!piece.is_repeated) {
      write_nodes(w, piece, values_.names());
      return;
    }
    std::vector<HloValue> operands;
    for (const ir::ValueId value : piece.reads) operands.push_back(values_.names()[value.index]);
    const std::vector<HloValue> results = call(w, p, operands);
    for (size_t r = 0; r < results.size(); ++r) values_.set(piece.leaves[r], results[r]);
  }

  std::vector<HloValue> call(HloWriter& w, size_t p, const std::vector<HloValue>& operands) {
    const Piece& piece = pieces_[p];
    if (piece.kind == p) called_ += piece_function(p);
    std::vector<HloType> types;
    for (const ir::ValueId value : piece.leaves) types.push_back(ops::hlo_type(graph_.type(value)));
    w.set_location(graph_.nodes()[piece.nodes[0]].scope);
    return w.call(name_of(piece.kind), operands, types);
  }

  std::string piece_function(size_t p) {
    const Piece& piece = pieces_[p];
    Names names(graph_.values().size());
    std::vector<HloValue> arguments, results;
    for (const ir::ValueId value : piece.reads) {
      arguments.push_back({fmt::format("%arg{}", arguments.size()), ops::hlo_type(graph_.type(value))});
      names[value.index] = arguments.back();
    }
    HloWriter w = new_writer();
    write_nodes(w, piece, names);
    for (const ir::ValueId value : piece.leaves) results.push_back(names[value.index]);
    return function_text(name_of(p), arguments, w, results);
  }

  void write_nodes(HloWriter& w, const Piece& piece, Names& names) const {
    if (must_hold_back(piece)) hold_back(w, piece, names);
    for (const size_t n : piece.nodes) {
      const ir::Node& node = graph_.nodes()[n];
      std::vector<HloValue> operands;
      for (const ir::ValueId operand : node.operands) operands.push_back(names[operand.index]);
      const ops::Types operand_types = graph_.operand_types(node), result_types = graph_.result_types(node);
      const ops::NodeView view{operand_types, result_types, node.attrs};
      w.set_location(node.scope);
      const ops::HloResults results = write_node(w, node, {operands, view});
      for (size_t r = 0; r < node.results.size(); ++r) names[node.results[r].index] = results[r];
    }
  }

  /// A composite that is still there is one that the backend leaves to its plugin's call.
  static ops::HloResults write_node(HloWriter& w, const ir::Node& node, const ops::HloArgs& args) {
    const ops::OpDef& op = ops::op_def(node.op);
    if (op.stablehlo) return op.stablehlo(w, args);
    const CustomCall* call = find_custom_call(node.op);
    MEGACPP_CHECK(call != nullptr) << node.op << " @" << node.scope << " has no StableHLO form";
    return call->write(w, args);
  }

  // Unrolled, a backward pass without recompute is left to XLA: held back, every value that is kept would be stored,
  // and none made again inside the fusion that reads it (dense 1.1B on an H200: 73.6 GiB with SwiGLU's inner values).
  bool must_hold_back(const Piece& piece) const {
    return piece.is_return && !piece.reads.empty() && (options_.has_loops || piece.recomputes);
  }

  // XLA would see that the backward pass computes again what the forward pass did, and keep it instead: weights of
  // attention, gathered parameters. Behind a barrier the two are different, and nothing begins before its turn.
  static void hold_back(HloWriter& w, const Piece& piece, Names& names) {
    std::vector<HloValue> values;
    for (const ir::ValueId value : piece.reads) values.push_back(names[value.index]);
    const std::vector<HloValue> held = w.barrier(values);
    for (size_t i = 0; i < held.size(); ++i) names[piece.reads[i].index] = held[i];
  }

  const FunctionRequest& request_;
  const ir::Graph& graph_;
  const std::vector<Piece>& pieces_;
  const ir::Mesh& mesh_;
  const FunctionOptions& options_;
  int64_t& next_channel_;
  FunctionValues values_;
  std::string called_;
};

}  // namespace

std::string write_function(const FunctionRequest& request, const ir::Mesh& mesh, const FunctionOptions& options,
                           int64_t& next_channel) {
  return FunctionWriter(request, mesh, options, next_channel).write();
}

ir::Shape with_first(int64_t size, ir::Shape shape) {
  shape.insert(shape.begin(), size);
  return shape;
}

ir::TensorType slot_type(const Slot& slot, ir::TensorType type) {
  if (slot.is_stack()) type.shape = with_first(static_cast<int64_t>(slot.names.size()), std::move(type.shape));
  return type;
}

}  // namespace megacpp::emit
