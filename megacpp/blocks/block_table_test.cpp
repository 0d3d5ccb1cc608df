// SPDX-License-Identifier: Apache-2.0
// Every block family as a table: its parameters are exactly what its graph reads, and the graph keeps the stream's
// type.
#include <gtest/gtest.h>

#include <set>

#include "megacpp/base/error.h"
#include "megacpp/blocks/block.h"
#include "megacpp/ops/verify.h"

namespace megacpp::blocks {
namespace {

struct Case {
  std::string name;
  char letter;
  Configs configs;
  ir::DType compute = ir::DType::f32;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Configs small_configs() {
  return {.attention = {.heads = 4, .kv_heads = 2, .head_dim = 4},
          .feed_forward = {.intermediate = 12},
          .mamba = {.heads = 4, .head_dim = 4, .state = 4, .groups = 2, .chunk = 4},
          .recurrent = {.width = 8, .heads = 2}};
}

template <typename Change>
Case changed(std::string name, char letter, const Change& change) {
  Case c{.name = std::move(name), .letter = letter, .configs = small_configs()};
  change(c.configs);
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const BlockDef& def : all_blocks()) {
    cases.push_back({std::string(1, def.letter), def.letter, small_configs()});
    cases.push_back({std::string(1, def.letter) + "_bf16", def.letter, small_configs(), ir::DType::bf16});
  }
  cases.push_back(changed("A_qk_norm", 'A', [](Configs& c) { c.attention.qk_norm = true; }));
  cases.push_back(changed("A_documents", 'A', [](Configs& c) { c.attention.document_mask = true; }));
  cases.push_back(changed("A_no_rope", 'A', [](Configs& c) { c.attention.rope = false; }));
  cases.push_back(changed("E_relu2", 'E', [](Configs& c) { c.feed_forward.activation = "relu2"; }));
  cases.push_back(changed("E_experts", 'E', [](Configs& c) { c.feed_forward.experts = 4; }));
  cases.push_back(changed("E_relu2_experts", 'E', [](Configs& c) {
    c.feed_forward.activation = "relu2";
    c.feed_forward.experts = 4;
  }));
  cases.push_back(changed("E_everything", 'E', [](Configs& c) {
    c.feed_forward.experts = 4;
    c.feed_forward.capacity_factor = 0;
    c.feed_forward.shared_intermediate = 6;
    c.feed_forward.scoring = "sigmoid";
    c.feed_forward.bias_rate = 0.01;
  }));
  cases.push_back(changed("E_expert_choice", 'E', [](Configs& c) {
    c.feed_forward.experts = 4;
    c.feed_forward.routing = "expert_choice";
  }));
  cases.push_back(changed("M_plain", 'M', [](Configs& c) {
    c.mamba.conv_bias = false;
    c.mamba.norm_per_group = false;
    c.mamba.dt_limit_low = 0.01;
    c.mamba.dt_limit_high = 0.1;
  }));
  return cases;
}

class BlockTableTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Blocks, BlockTableTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(BlockTableTest, ParametersAreExactlyWhatTheGraphReads) {
  const Case& c = GetParam();
  const Dims dims{.batch = 2, .sequence = 8, .hidden = 16, .compute = c.compute};
  ir::Graph graph("block");
  ops::Builder builder(graph);
  builder.set_scope("block00." + std::string(1, c.letter));
  const BlockDef& def = block_def(c.letter);
  std::map<std::string, ValueId> weights;
  for (const Parameter& parameter : def.parameters(dims, c.configs)) {
    const ValueId value = builder.input(parameter.name, {ir::DType::f32, parameter.shape}, ir::Role::weight);
    EXPECT_TRUE(weights.emplace(parameter.name, value).second) << parameter.name << " stands twice";
  }
  const ir::Shape table{dims.sequence, c.configs.attention.head_dim / 2}, tokens{dims.batch, dims.sequence};
  const ValueId x = builder.input("x", {c.compute, {dims.batch, dims.sequence, dims.hidden}}, ir::Role::batch);
  std::vector<RouterStats> routers;
  const BuildContext context{.builder = builder,
                             .dims = dims,
                             .configs = c.configs,
                             .parallel = {},
                             .block = "block00",
                             .weights = weights,
                             .rope_cos = builder.input("cos", {ir::DType::f32, table}, ir::Role::batch),
                             .rope_sin = builder.input("sin", {ir::DType::f32, table}, ir::Role::batch),
                             .segments = builder.input("segments", {ir::DType::i32, tokens}, ir::Role::batch),
                             .routers = &routers};
  const ValueId y = def.build(context, x);
  graph.add_output({.name = "y", .value = y});
  ops::verify(graph, ops::Form::built);
  EXPECT_EQ(graph.type(y), graph.type(x));
  const auto users = graph.users();
  for (const auto& [name, value] : weights) EXPECT_FALSE(users[value.index].empty()) << name << " is never read";
  EXPECT_EQ(routers.size(), c.letter == 'E' && c.configs.feed_forward.experts > 0 ? 1U : 0U);
  for (const ir::Node& node : graph.nodes()) EXPECT_EQ(ir::scope_block(node.scope), "block00") << node.op;
}

TEST(BlocksTest, LettersAndNamesAreUnique) {
  std::set<char> letters;
  std::set<std::string_view> names;
  for (const BlockDef& def : all_blocks()) {
    EXPECT_TRUE(letters.insert(def.letter).second) << def.letter;
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_EQ(&block_def(def.letter), &def);
  }
  EXPECT_THROW(block_def('?'), base::Error);
}

}  // namespace
}  // namespace megacpp::blocks
