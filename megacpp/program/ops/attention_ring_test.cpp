// SPDX-License-Identifier: Apache-2.0
// Ring attention on all chips of small meshes against attention on one: the rules' programs are run as they are.
#include "megacpp/program/ops/attention_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "megacpp/program/ops/attention_mask.h"
#include "megacpp/program/ops/evaluator.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Mesh;
using ir::Sharding;
using ir::TensorType;
using testing_support::random_tensor;

struct RingCase {
  std::string name;
  Mesh mesh;
  ir::Shape shape;  // [b,s,H,d]
  int64_t kv_heads;
  ir::Attrs mask = {};
  DType dtype = DType::f32;
  bool documents = false;
  int64_t runs = 0;                        // stored as 0, runs-1, 1, runs-2, ..; 0: in order, without positions
  std::string q = "-,context,-,-", k = q;  // shardings of [b,s,H,d] and [b,t,K,d]
  int64_t passes = -1;                     // -1: all around
};

void PrintTo(const RingCase& c, std::ostream* out) { *out << c.name; }

Mesh mesh_of(int64_t context) { return Mesh({{"context", context}}); }

std::vector<RingCase> ring_cases() {
  const Mesh wide({{"data", 2}, {"context", 2}, {"model.0", 2}, {"model.1", 2}});
  const ir::Attrs causal = {{"causal", int64_t{1}}};
  const ir::Attrs window = {{"causal", int64_t{1}}, {"window", int64_t{5}}};
  const ir::Attrs sparse = {{"causal", int64_t{1}},
                            {"sparse_block", int64_t{2}},
                            {"sparse_global", int64_t{1}},
                            {"sparse_local", int64_t{2}}};
  const ir::Attrs gaps = {{"sparse_block", int64_t{2}}, {"sparse_global", int64_t{1}}, {"window", int64_t{3}}};
  std::vector<RingCase> cases = {
      {.name = "causal2", .mesh = mesh_of(2), .shape = {2, 6, 2, 4}, .kv_heads = 2, .mask = causal},
      {.name = "causal4_grouped", .mesh = mesh_of(4), .shape = {1, 8, 4, 4}, .kv_heads = 2, .mask = causal},
      {.name = "full3", .mesh = mesh_of(3), .shape = {1, 9, 1, 4}, .kv_heads = 1},
      {.name = "window4", .mesh = mesh_of(4), .shape = {1, 16, 2, 4}, .kv_heads = 1, .mask = window},
      {.name = "rows_that_see_nothing", .mesh = mesh_of(2), .shape = {1, 8, 2, 4}, .kv_heads = 2, .mask = gaps}};
  // A window of 5 reaches back 4 tokens: one run of 4 or 8, two of 2.
  cases[3].passes = 1;
  for (const auto& [tokens, passes] : {std::pair{32, 1}, {8, 2}})
    cases.push_back({.name = "window" + std::to_string(tokens) + "_stops",
                     .mesh = mesh_of(4),
                     .shape = {1, tokens, 2, 4},
                     .kv_heads = 2,
                     .mask = window,
                     .documents = true,
                     .passes = passes});
  cases.push_back({.name = "sees_itself_only",
                   .mesh = mesh_of(3),
                   .shape = {1, 6, 2, 4},
                   .kv_heads = 1,
                   .mask = {{"causal", int64_t{1}}, {"window", int64_t{1}}},
                   .passes = 0});
  cases.push_back(
      {.name = "bf16", .mesh = mesh_of(2), .shape = {1, 6, 2, 4}, .kv_heads = 1, .mask = causal, .dtype = DType::bf16});
  cases.push_back({.name = "documents3",
                   .mesh = mesh_of(3),
                   .shape = {2, 12, 2, 4},
                   .kv_heads = 2,
                   .mask = causal,
                   .documents = true});
  cases.push_back(
      {.name = "balanced2", .mesh = mesh_of(2), .shape = {1, 12, 2, 4}, .kv_heads = 1, .mask = causal, .runs = 4});
  cases.push_back({.name = "balanced4_window_documents",
                   .mesh = mesh_of(4),
                   .shape = {2, 16, 4, 2},
                   .kv_heads = 2,
                   .mask = window,
                   .documents = true,
                   .runs = 8});
  cases.push_back({.name = "balanced2_sparse",
                   .mesh = mesh_of(2),
                   .shape = {1, 16, 2, 4},
                   .kv_heads = 2,
                   .mask = sparse,
                   .runs = 4});
  cases.push_back({.name = "with_data_and_heads",
                   .mesh = wide,
                   .shape = {2, 8, 4, 4},
                   .kv_heads = 2,
                   .mask = causal,
                   .documents = true,
                   .q = "data,context,model.0,-"});
  cases.push_back({.name = "heads_of_a_group_apart",
                   .mesh = wide,
                   .shape = {2, 8, 4, 4},
                   .kv_heads = 2,
                   .mask = causal,
                   .q = "data,context,model.0+model.1,-",
                   .k = "data,context,model.0,-"});
  cases.push_back({.name = "more_chips_than_key_heads",
                   .mesh = wide,
                   .shape = {2, 4, 4, 4},
                   .kv_heads = 1,
                   .mask = causal,
                   .q = "-,context,model.0+model.1,-",
                   .k = "data,context,model.0,-"});
  cases.push_back({.name = "ring_of_two_axes",
                   .mesh = wide,
                   .shape = {1, 8, 4, 4},
                   .kv_heads = 1,
                   .mask = causal,
                   .runs = 8,
                   .q = "-,context+data,model.1,-",
                   .k = "-,context+data,-,-"});
  return cases;
}

// Hands out the chip's part of each operand as an input of the chip's program.
class FakeContext : public PartitionContext {
 public:
  FakeContext(const Mesh& mesh, const NodeView& view, std::vector<Sharding> shardings)
      : mesh_(mesh), view_(view), shardings_(std::move(shardings)) {}

  const NodeView& view() const override { return view_; }
  const Mesh& mesh() const override { return mesh_; }
  const Sharding& sharding(size_t operand) const override { return shardings_[operand]; }
  const Sharding* requested() const override { return nullptr; }
  ValueId local(size_t operand, const Sharding& sharding) override {
    const std::string name = "x" + std::to_string(operand);
    asked_[name] = {operand, sharding};
    const TensorType& whole = view_.operands[operand];
    return builder_.input(name, {whole.dtype, ir::local_shape(whole.shape, sharding, mesh_)}, ir::Role::activation);
  }
  Builder& builder() override { return builder_; }

  // The results of the chip's program on all chips, put together.
  std::vector<Tensor> run(const std::vector<PartitionedResult>& results, const std::vector<Tensor>& operands) {
    for (size_t r = 0; r < results.size(); ++r)
      graph_.add_output({.name = std::to_string(r), .value = results[r].value});
    std::vector<std::map<std::string, Tensor>> inputs(static_cast<size_t>(mesh_.chips()));
    for (size_t chip = 0; chip < inputs.size(); ++chip)
      for (const auto& [name, asked] : asked_)
        inputs[chip][name] =
            testing_support::shard(operands[asked.operand], asked.sharding, mesh_, static_cast<int64_t>(chip));
    const auto outputs = testing_support::evaluate_spmd(graph_, mesh_, inputs, Rounding::none);
    std::vector<Tensor> whole;
    for (size_t r = 0; r < results.size(); ++r) {
      std::vector<Tensor> parts;
      for (const auto& of_chip : outputs) parts.push_back(of_chip.at(std::to_string(r)));
      whole.push_back(testing_support::unshard(parts, view_.results[r].shape, results[r].sharding, mesh_));
    }
    return whole;
  }

  int64_t exchanges() const {
    return std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                         [](const ir::Node& node) { return node.op == "permute"; });
  }

 private:
  struct Asked {
    size_t operand;
    Sharding sharding;
  };

  Mesh mesh_;
  NodeView view_;
  std::vector<Sharding> shardings_;
  ir::Graph graph_{"chip"};
  Builder builder_{graph_};
  std::map<std::string, Asked> asked_;
};

Tensor positions_of(const RingCase& c) {
  const int64_t size = c.shape[1];
  Tensor positions = Tensor::zeros({DType::i32, {size}});
  for (int64_t i = 0; i < size; ++i) {
    const int64_t length = c.runs > 0 ? size / c.runs : size, run = i / length;
    const int64_t time = run % 2 == 0 ? run / 2 : c.runs - 1 - run / 2;
    positions[i] = static_cast<double>(time * length + i % length);
  }
  return positions;
}

class AttentionRingTest : public testing::TestWithParam<RingCase> {
 protected:
  AttentionRingTest() {
    const RingCase& c = GetParam();
    const TensorType q{c.dtype, c.shape}, k{c.dtype, {c.shape[0], c.shape[1], c.kv_heads, c.shape[3]}};
    attrs_ = c.mask;
    attrs_.set("scale", 1.0 / std::sqrt(static_cast<double>(c.shape[3])));
    operands_ = {random_tensor(q, "q", -2, 2), random_tensor(k, "k", -2, 2), random_tensor(k, "v")};
    shardings_ = {sharding(c.q), sharding(c.k), sharding(c.k)};
    const Tensor positions = positions_of(c);
    if (c.documents) {
      attrs_.set("documents", int64_t{1});
      Tensor segments = Tensor::zeros({DType::i32, {c.shape[0], c.shape[1]}});
      for (int64_t i = 0; i < segments.elements(); ++i)
        segments[i] = std::floor((positions[i % c.shape[1]] + static_cast<double>(i / c.shape[1])) / 5);
      add_tokens(segments);
    }
    if (c.runs > 0) {
      attrs_.set("placed", int64_t{1});
      add_tokens(positions);
    }
  }

  Sharding sharding(const std::string& text) const { return ir::parse_sharding(text, GetParam().mesh); }
  int64_t passes() const {
    return GetParam().passes >= 0 ? GetParam().passes : GetParam().mesh.size(shardings_[0].dims[1]) - 1;
  }

  // Both sides of what describes tokens; the rule asks for it as it needs it.
  void add_tokens(const Tensor& tensor) {
    for (int side = 0; side < 2; ++side) {
      operands_.push_back(tensor);
      shardings_.push_back(Sharding::replicated(tensor.type.shape.size()));
    }
  }

  void expect_same(const char* op, const std::vector<Tensor>& operands, std::vector<Sharding> shardings,
                   std::vector<PartitionedResult> (*rule)(PartitionContext&), int64_t exchanges) {
    const std::vector<Tensor> wanted = evaluate_op(op, operands, attrs_, Rounding::none);
    Types types, results;
    for (const Tensor& operand : operands) types.push_back(operand.type);
    for (const Tensor& result : wanted) results.push_back(result.type);
    FakeContext context(GetParam().mesh, {types, results, attrs_}, std::move(shardings));
    const std::vector<PartitionedResult> parts = rule(context);
    ASSERT_EQ(parts.size(), wanted.size());
    EXPECT_EQ(context.exchanges(), exchanges);
    const std::vector<Tensor> got = context.run(parts, operands);
    for (size_t r = 0; r < wanted.size(); ++r) {
      ASSERT_EQ(got[r].type, wanted[r].type);
      for (int64_t i = 0; i < wanted[r].elements(); ++i)
        ASSERT_NEAR(got[r][i], wanted[r][i], 1e-9 * std::max(1.0, std::fabs(wanted[r][i])))
            << "result " << r << " element " << i;
    }
  }

  ir::Attrs attrs_;
  std::vector<Tensor> operands_;
  std::vector<Sharding> shardings_;
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionRingTest, testing::ValuesIn(ring_cases()),
                         [](const testing::TestParamInfo<RingCase>& info) { return info.param.name; });

TEST_P(AttentionRingTest, EqualsAttentionOnOneChip) {
  expect_same("attention", operands_, shardings_, partition_attention, passes());
}

TEST_P(AttentionRingTest, GradientEqualsThatOfOneChip) {
  const std::vector<Tensor> results = evaluate_op("attention", operands_, attrs_, Rounding::none);
  const auto tokens = operands_.begin() + kAttentionOperands;
  std::vector<Tensor> operands(operands_.begin(), tokens);
  operands.insert(operands.end(), {results[0], results[1], random_tensor(results[0].type, "dout")});
  operands.insert(operands.end(), tokens, operands_.end());
  std::vector<Sharding> shardings = shardings_;
  const Sharding& q = shardings_[0];
  shardings.insert(shardings.begin() + kAttentionOperands, {q, {{q.dims[0], q.dims[2], q.dims[1]}}, q});
  // Runs, their gradients, and these once more to come home.
  expect_same("attention_grad", operands, shardings, partition_attention_grad, passes() == 0 ? 0 : 2 * passes() + 1);
}

// The rule of a node with the given shardings of q and k on four chips.
size_t results_of(int64_t tokens, const std::string& q, const std::string& k) {
  const Mesh mesh = mesh_of(4);
  const TensorType type{DType::f32, {1, tokens, 2, 4}};
  const Types operands(3, type), results = {type, {DType::f32, {1, 2, tokens}}};
  const ir::Attrs attrs = {{"scale", 1.0}};
  FakeContext context(mesh, {operands, results, attrs},
                      {ir::parse_sharding(q, mesh), ir::parse_sharding(k, mesh), ir::parse_sharding(k, mesh)});
  return partition_attention(context).size();
}

TEST(AttentionRingRuleTest, AppliesOnlyWhereTokensAreSplitIntoEqualRuns) {
  EXPECT_EQ(results_of(8, "-,context,-,-", "-,context,-,-"), 2U);
  EXPECT_EQ(results_of(8, "-,-,-,-", "-,-,-,-"), 0U) << "whole sequences need no ring";
  EXPECT_EQ(results_of(8, "-,context,-,-", "-,-,-,-"), 0U) << "whole keys do not travel";
  EXPECT_EQ(results_of(6, "-,context,-,-", "-,context,-,-"), 0U) << "runs of different lengths";
}

// What a node of the ring is expected to compute, in pairs of a query and a key.
std::vector<double> pairs_of_nodes(const ir::Attrs& attrs, const Types& operands) {
  constexpr int64_t kHeadElements = 2 * 4;
  const Mesh mesh = mesh_of(4);
  const Types results = {operands[0], {DType::f32, {1, 2, operands[0].dim(1)}}};
  std::vector<Sharding> shardings(3, ir::parse_sharding("-,context,-,-", mesh));
  for (size_t i = shardings.size(); i < operands.size(); ++i) shardings.push_back(Sharding::replicated(1));
  FakeContext context(mesh, {operands, results, attrs}, std::move(shardings));
  partition_attention(context);
  const ir::Graph& graph = context.builder().graph();
  std::vector<double> pairs;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != "attention") continue;
    const Types own = graph.operand_types(node), made = graph.result_types(node);
    pairs.push_back(op_def(node.op).cost({own, made, node.attrs}).flops / (4 * kHeadElements));
  }
  return pairs;
}

TEST(AttentionRingRuleTest, NodesCostWhatTheSlowestChipSees) {
  const TensorType type{DType::f32, {1, 8, 2, 4}};
  const ir::Attrs causal = {{"scale", 1.0}, {"causal", int64_t{1}}};
  EXPECT_EQ(pairs_of_nodes(causal, {type, type, type}), (std::vector<double>{3, 4, 4, 4})) << "the last chip, in order";
  ir::Attrs placed = causal;
  placed.set("placed", int64_t{1});
  const TensorType positions{DType::i32, {8}};
  EXPECT_EQ(pairs_of_nodes(placed, {type, type, type, positions, positions}), (std::vector<double>{3, 3, 3, 3}))
      << "a sixteenth of 36 pairs, rounded up, where early runs are paired with late ones";
}

// Each query sees itself and the one before: of another run only the first query of a run does.
TEST(AttentionRingRuleTest, AWindowCostsItsKeysOnce) {
  const TensorType type{DType::f32, {1, 8, 2, 4}};
  const ir::Attrs window = {{"scale", 1.0}, {"causal", int64_t{1}}, {"window", int64_t{2}}};
  EXPECT_EQ(pairs_of_nodes(window, {type, type, type}), (std::vector<double>{3, 1}));
}

}  // namespace
}  // namespace megacpp::ops
