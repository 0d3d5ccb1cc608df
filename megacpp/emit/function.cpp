// SPDX-License-Identifier: Apache-2.0
#include "megacpp/emit/function.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/emit/outline.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::emit {
namespace {

using ops::HloValue;
using Names = std::vector<HloValue>;  // by value of the graph

class FunctionWriter {
 public:
  FunctionWriter(std::string name, const ir::Graph& graph, const ir::Mesh& mesh, const FunctionOptions& options,
                 int64_t& next_channel)
      : name_(std::move(name)), graph_(graph), mesh_(mesh), options_(options), next_channel_(next_channel) {}

  std::string write() {
    std::vector<ir::ValueId> inputs, outputs;
    for (const ir::NodeId id : graph_.inputs()) inputs.push_back(graph_.node(id).results[0]);
    for (const ir::Output& output : graph_.outputs()) outputs.push_back(output.value);
    const std::vector<Piece> pieces = outline(graph_);
    std::string called;
    std::string whole = function(name_, inputs, outputs, [&](ops::HloWriter& w, Names& names) {
      for (size_t p = 0; p < pieces.size(); ++p) {
        const Piece& piece = pieces[p];
        if (!options_.is_rolled || !piece.is_repeated) {
          write_nodes(w, piece, names);
          continue;
        }
        if (piece.kind == p)
          called += function(name_of(p), piece.reads, piece.leaves,
                             [&](ops::HloWriter& own, Names& own_names) { write_nodes(own, piece, own_names); });
        call(w, name_of(piece.kind), piece, names);
      }
    });
    return whole + called;
  }

 private:
  std::string name_of(size_t piece) const { return fmt::format("{}_piece{}", name_, piece); }

  template <typename Body>
  std::string function(const std::string& name, const std::vector<ir::ValueId>& inputs,
                       const std::vector<ir::ValueId>& outputs, const Body& body) {
    Names names(graph_.values().size());
    std::vector<std::string> arguments, results, types;
    for (size_t i = 0; i < inputs.size(); ++i) {
      names[inputs[i].index] = {fmt::format("%arg{}", i), ops::hlo_type(graph_.type(inputs[i]))};
      arguments.push_back(fmt::format("%arg{}: {}", i, ops::to_text(names[inputs[i].index].type)));
    }
    ops::HloWriter writer(mesh_, next_channel_);
    body(writer, names);
    for (const ir::ValueId output : outputs) {
      results.push_back(names[output.index].name);
      types.push_back(ops::to_text(names[output.index].type));
    }
    return fmt::format("func.func private @{}({}) -> ({}) {{\n{}  return {}{}{}\n}}\n", name,
                       fmt::join(arguments, ", "), fmt::join(types, ", "), writer.text(), fmt::join(results, ", "),
                       types.empty() ? "" : " : ", fmt::join(types, ", "));
  }

  void write_nodes(ops::HloWriter& w, const Piece& piece, Names& names) {
    if (piece.is_return) hold_back(w, piece, names);
    for (size_t n = piece.first; n < piece.last; ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (node.op == ir::kInputOp) continue;
      const ops::OpDef& op = ops::op_def(node.op);
      MEGACPP_CHECK(op.stablehlo) << node.op << " @" << node.scope << " has no StableHLO form";
      std::vector<HloValue> operands;
      for (const ir::ValueId operand : node.operands) operands.push_back(names[operand.index]);
      const ops::Types operand_types = graph_.operand_types(node), result_types = graph_.result_types(node);
      const ops::NodeView view{operand_types, result_types, node.attrs};
      w.set_location(node.scope);
      const ops::HloResults results = op.stablehlo(w, {operands, view});
      for (size_t r = 0; r < node.results.size(); ++r) names[node.results[r].index] = results[r];
    }
  }

  // XLA would see that the backward pass computes again what the forward pass did, and keep it instead: weights of
  // attention, gathered parameters. Behind a barrier the two are different, and nothing begins before its turn.
  void hold_back(ops::HloWriter& w, const Piece& piece, Names& names) {
    std::vector<HloValue> values;
    for (const ir::ValueId value : piece.reads) values.push_back(names[value.index]);
    const std::vector<HloValue> held = w.barrier(values);
    for (size_t i = 0; i < held.size(); ++i) names[piece.reads[i].index] = held[i];
  }

  void call(ops::HloWriter& w, const std::string& function, const Piece& piece, Names& names) {
    std::vector<HloValue> operands;
    std::vector<ops::HloType> types;
    for (const ir::ValueId value : piece.reads) operands.push_back(names[value.index]);
    for (const ir::ValueId value : piece.leaves) types.push_back(ops::hlo_type(graph_.type(value)));
    w.set_location(graph_.nodes()[piece.first].scope);
    const std::vector<HloValue> results = w.call(function, operands, types);
    for (size_t r = 0; r < results.size(); ++r) names[piece.leaves[r].index] = results[r];
  }

  const std::string name_;
  const ir::Graph& graph_;
  const ir::Mesh& mesh_;
  const FunctionOptions& options_;
  int64_t& next_channel_;
};

}  // namespace

std::string write_function(const std::string& name, const ir::Graph& graph, const ir::Mesh& mesh,
                           const FunctionOptions& options, int64_t& next_channel) {
  return FunctionWriter(name, graph, mesh, options, next_channel).write();
}

}  // namespace megacpp::emit
