// SPDX-License-Identifier: Apache-2.0
// What state-space products cost where XLA runs their parts, against a count of the kernels of these parts, node by
// node, as SsdTraffic says that XLA for GPUs makes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {
namespace {

using ir::DType;

bool is_one_of(const ir::Node& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, node.op) != ops.end();
}

class Kernels {
 public:
  explicit Kernels(const ir::Graph& graph) : graph_(graph) {
    for (uint32_t v = 0; v < graph.values().size(); ++v) first_.push_back({v});
    merge_equal_nodes();
    for (const ir::Output& output : graph.outputs()) stored_.insert(first(output.value));
    for (const ir::Node& node : graph.nodes()) store(node);
  }

  double bytes() const {
    double bytes = 0;
    for (const ValueId value : stored_) {
      bytes += size(value);
      for (const ValueId read : reads(graph_.producer(value))) bytes += size(read);
    }
    return bytes;
  }

 private:
  static bool is_kernel(const ir::Node& node) {
    return is_one_of(node, {"dot", "reduce", "cumsum", "linear_recurrence"});
  }

  ValueId first(ValueId value) const { return first_[value.index]; }
  double size(ValueId value) const { return static_cast<double>(graph_.type(value).bytes()); }

  std::vector<ValueId> operands(const ir::Node& node) const {
    std::vector<ValueId> found;
    for (const ValueId operand : node.operands) found.push_back(first(operand));
    return found;
  }

  void merge_equal_nodes() {
    const std::vector<ir::Node>& nodes = graph_.nodes();
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
      const auto same = std::find_if(nodes.begin(), node, [&](const ir::Node& earlier) {
        return node->op != ir::kInputOp && earlier.op == node->op && earlier.attrs == node->attrs &&
               operands(earlier) == operands(*node);
      });
      for (size_t r = 0; r < node->results.size(); ++r)
        first_[node->results[r].index] = first(same->results[r]);  // its own where it is the first
    }
  }

  /// Through ops that only change the order, the shape or the dtype.
  ValueId source(ValueId value) const {
    while (is_one_of(graph_.producer(value), {"reshape", "transpose", "slice", "convert"}))
      value = first(graph_.producer(value).operands[0]);
    return value;
  }

  /// Results of kernels, and operands that a product does not find in memory.
  void store(const ir::Node& node) {
    if (!is_kernel(node)) return;
    stored_.insert(first(node.results[0]));
    if (node.op != "dot") return;
    for (const ValueId operand : operands(node)) {
      const ir::Node& from = graph_.producer(source(operand));
      const bool is_there = is_kernel(from) && graph_.type(source(operand)).dtype == graph_.type(operand).dtype;
      if (!is_there && !is_one_of(from, {ir::kInputOp, "broadcast", "iota", "constant"})) stored_.insert(operand);
    }
  }

  std::set<ValueId> reads(const ir::Node& node) const {
    std::set<ValueId> found;
    for (const ValueId operand : operands(node)) {
      if (node.op == "dot")
        found.insert(stored_.contains(operand) ? operand : source(operand));
      else
        add_reads(operand, found);
    }
    return found;
  }

  void add_reads(ValueId value, std::set<ValueId>& found) const {
    const ir::Node& node = graph_.producer(value);
    if (stored_.contains(value) || node.op == ir::kInputOp) {
      found.insert(value);
      return;
    }
    for (const ValueId operand : operands(node)) add_reads(operand, found);
  }

  const ir::Graph& graph_;
  std::vector<ValueId> first_;  // by value: of equal ones the first
  std::set<ValueId> stored_;
};

double bytes_of(const Types& types) {
  double bytes = 0;
  for (const ir::TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

struct StateSpace {
  int64_t batch, heads, groups, chunk;
};

void expect_count(const OpDef& op, const Types& operands, const ir::Attrs& attrs) {
  ir::Graph graph("parts");
  Builder builder(graph);
  std::vector<ValueId> ids;
  for (size_t i = 0; i < operands.size(); ++i)
    ids.push_back(builder.input("x" + std::to_string(i), operands[i], ir::Role::activation));
  for (const ValueId result : op.decompose(builder, ids, attrs))
    graph.add_output({.name = std::to_string(result.index), .value = result});
  const double counted = Kernels(graph).bytes();
  const Types results = op.infer(operands, attrs);
  const double ruled = op.cost_by_xla({operands, results, attrs}).bytes + bytes_of(operands) + bytes_of(results);
  EXPECT_NEAR(ruled / counted, 1, 1e-4) << op.name << ": " << counted / 1e9 << " GB";
}

// Of hybrid-2b and of nam56r-1b.
TEST(SsdTrafficTest, IsThatOfTheKernelsOfItsParts) {
  for (const StateSpace& z : {StateSpace{8, 64, 1, 256}, StateSpace{2, 56, 4, 128}}) {
    const ir::TensorType x{DType::bf16, {z.batch, 4096, z.heads, 64}}, dt{DType::f32, {z.batch, 4096, z.heads}};
    const ir::TensorType a{DType::f32, {z.heads}}, bc{DType::bf16, {z.batch, 4096, z.groups, 128}};
    const ir::Attrs attrs = {{"chunk", z.chunk}};
    expect_count(op_def("ssd"), {x, dt, a, bc, bc}, attrs);
    expect_count(op_def("ssd_grad"), {x, dt, a, bc, bc, x}, attrs);
  }
}

}  // namespace
}  // namespace megacpp::ops
