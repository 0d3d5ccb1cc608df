// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_results.h"

#include <optional>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

constexpr int64_t kFewSummed = 16;

class Narrower {
 public:
  Narrower(const ir::Graph& graph, const Target& target)
      : graph_(graph), target_(target), readers_(count_readers(graph)), rewriter_(graph) {}

  ir::Graph run() {
    std::vector<std::optional<ir::DType>> narrow(graph_.nodes().size());
    for (const ir::Node& node : graph_.nodes())
      if (is_narrowing(node))
        narrow[graph_.value(node.operands[0]).producer.index] = graph_.type(node.results[0]).dtype;
    for (size_t n = 0; n < narrow.size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (is_narrowing(node))
        rewriter_.set(node.results[0], rewriter_.map(node.operands[0]));
      else if (narrow[n])
        emit(node, *narrow[n]);
      else
        rewriter_.copy(node);
    }
    return rewriter_.finish();
  }

 private:
  bool is_narrowing(const ir::Node& node) const {
    if (node.op != "convert" || !ir::is_narrow(graph_.type(node.results[0]).dtype)) return false;
    const ir::ValueId wide = node.operands[0];
    const ir::Node& made = graph_.producer(wide);
    const ops::OpDef& op = ops::op_def(made.op);
    if (graph_.type(wide).dtype != ir::DType::f32 || readers_[wide.index] != 1 || !op.chooses_result_dtype)
      return false;
    if (op.work == ops::Work::product && graph_.type(made.operands[0]).dtype == ir::DType::f32 && !is_shallow(made))
      return false;
    // An addend has the result's dtype.
    if (op.addend >= 0 && made.operands.size() > static_cast<size_t>(op.addend)) return false;
    const ir::DType narrow = graph_.type(node.results[0]).dtype;
    const ir::Node asked = narrowed(made, narrow);
    const ops::Types operands = graph_.operand_types(made);
    const ops::Types results = narrow_types(made, narrow);
    return static_cast<bool>(target_.runs(asked.op, {operands, results, asked.attrs}));
  }

  // Libraries have no product of f32 that leaves narrow numbers. One that sums a few products for each element only
  // writes its result, and any kernel is as fast as memory.
  bool is_shallow(const ir::Node& product) const {
    if (product.op != "dot") return false;
    int64_t summed = 1;
    for (const int64_t dim : product.attrs.list("lhs_contract")) summed *= graph_.type(product.operands[0]).dim(dim);
    return summed <= kFewSummed;
  }

  static ir::Node narrowed(const ir::Node& node, ir::DType dtype) {
    ir::Node narrow = node;
    narrow.attrs.set("dtype", std::string(ir::dtype_name(dtype)));
    return narrow;
  }

  ops::Types narrow_types(const ir::Node& node, ir::DType dtype) const {
    return {{dtype, graph_.type(node.results[0]).shape}};
  }

  void emit(const ir::Node& node, ir::DType dtype) {
    ir::Node narrow = narrowed(node, dtype);
    for (ir::ValueId& operand : narrow.operands) operand = rewriter_.map(operand);
    rewriter_.replace(node.results, std::move(narrow), narrow_types(node, dtype));
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<size_t> readers_;  // by value
  Rewriter rewriter_;
};

}  // namespace

ir::Graph narrow_results(const ir::Graph& graph, const Target& target) { return Narrower(graph, target).run(); }

}  // namespace megacpp::schedule
