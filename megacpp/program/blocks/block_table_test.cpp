// SPDX-License-Identifier: Apache-2.0
// Every block family as a table: its parameters are exactly what its graph reads, and the graph keeps the stream's
// type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/ops/verify.h"

namespace megacpp::blocks {
namespace {

struct Case {
  std::string name;
  char letter;
  Config config;
  ir::DType compute = ir::DType::f32;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Of every family but those that have no sizes to give.
std::map<char, Config> small_configs() {
  return {{'A', Config::of(Attention{.heads = 4, .kv_heads = 2, .head_dim = 4})},
          {'E', Config::of(FeedForward{.intermediate = 12})},
          {'M', Config::of(Mamba{.heads = 4, .head_dim = 4, .state = 4, .groups = 2, .chunk = 4})},
          {'R', Config::of(Recurrent{.width = 8, .heads = 2})}};
}

template <typename Settings>
Case changed(std::string name, char letter, void (*change)(Settings&)) {
  Case c{.name = std::move(name), .letter = letter, .config = small_configs().at(letter)};
  change(c.config.as<Settings>());
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const BlockDef& def : all_blocks()) {
    cases.push_back({std::string(1, def.letter), def.letter, small_configs().at(def.letter)});
    cases.push_back({std::string(1, def.letter) + "_bf16", def.letter, cases.back().config, ir::DType::bf16});
  }
  const auto add = [&cases]<typename Settings>(const char* name, char letter, void (*change)(Settings&)) {
    cases.push_back(changed<Settings>(name, letter, change));
  };
  add(
      "A_qk_norm", 'A', +[](Attention& a) { a.qk_norm = true; });
  add(
      "A_norm_over_heads", 'A', +[](Attention& a) { a.qk_norm = true, a.qk_norm_over = NormOver::heads; });
  add(
      "A_biases", 'A', +[](Attention& a) { a.qkv_bias = a.out_bias = true; });
  add(
      "A_sinks", 'A', +[](Attention& a) { a.sinks = true, a.softcap = 30, a.scale = 0.5; });
  add(
      "A_linear_rope", 'A', +[](Attention& a) { a.rope_scaling = RopeScaling::linear, a.rope_factor = 2; });
  add(
      "A_llama3_rope", 'A',
      +[](Attention& a) { a.rope_scaling = RopeScaling::llama3, a.rope_factor = 8, a.rope_original_length = 4; });
  add(
      "A_part_of_yarn", 'A', +[](Attention& a) {
        a.rotary_dim = 2;
        a.rope_scaling = RopeScaling::yarn, a.rope_factor = 4, a.rope_original_length = 8;
      });
  add(
      "A_documents", 'A', +[](Attention& a) { a.document_mask = true; });
  add(
      "A_no_rope", 'A', +[](Attention& a) { a.rope = false; });
  add(
      "A_window", 'A', +[](Attention& a) { a.window = 3; });
  add(
      "E_relu2", 'E', +[](FeedForward& e) { e.activation = ActivationFunction::relu2; });
  add(
      "E_geglu", 'E', +[](FeedForward& e) { e.activation = ActivationFunction::geglu, e.bias = true; });
  add(
      "E_gelu", 'E', +[](FeedForward& e) { e.activation = ActivationFunction::gelu, e.bias = true; });
  add(
      "E_clamped_experts", 'E', +[](FeedForward& e) {
        e.activation = ActivationFunction::clamped_swiglu;
        e.bias = true;
        e.experts = 4;
        e.shared_intermediate = 6;
      });
  add(
      "E_groups", 'E', +[](FeedForward& e) {
        e.experts = 6, e.expert_groups = 3, e.top_groups = 2, e.routed_scale = 2.5, e.selection_bias = true;
      });
  add(
      "E_experts", 'E', +[](FeedForward& e) { e.experts = 4; });
  add(
      "E_relu2_experts", 'E', +[](FeedForward& e) { e.activation = ActivationFunction::relu2, e.experts = 4; });
  add(
      "E_everything", 'E', +[](FeedForward& e) {
        e.experts = 4;
        e.capacity_factor = 0;
        e.shared_intermediate = 6;
        e.scoring = Scoring::sigmoid;
        e.bias_rate = 0.01;
      });
  add(
      "E_expert_choice", 'E', +[](FeedForward& e) { e.experts = 4, e.routing = RoutedBy::experts; });
  add(
      "M_plain", 'M', +[](Mamba& m) {
        m.conv_bias = false;
        m.norm_per_group = false;
        m.dt_limit_low = 0.01;
        m.dt_limit_high = 0.1;
      });
  add(
      "M_documents", 'M', +[](Mamba& m) { m.document_mask = true; });
  add(
      "R_documents", 'R', +[](Recurrent& r) { r.document_mask = true; });
  return cases;
}

class BlockTableTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Blocks, BlockTableTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// With `lora` on, adapters beside every matrix are parameters too.
void expect_parameters_are_read(const Case& c, const Lora& lora) {
  const Dims dims{.batch = 2, .sequence = 8, .hidden = 16, .compute = c.compute};
  ir::Graph graph("block");
  ops::Builder builder(graph);
  builder.set_scope("block00." + std::string(1, c.letter));
  const BlockDef& def = block_def(c.letter);
  std::map<std::string, ValueId> weights;
  std::vector<Parameter> parameters = def.parameters(dims, c.config);
  for (const Parameter& parameter : def.parameters(dims, c.config))
    if (lora.is_on() && parameter.kind == ParameterKind::matrix)
      for (Parameter& adapter : adapters_of(lora, parameter)) parameters.push_back(std::move(adapter));
  for (const Parameter& parameter : parameters) {
    const ValueId value = builder.input(parameter.name, {ir::DType::f32, parameter.shape}, ir::Role::weight);
    EXPECT_TRUE(weights.emplace(parameter.name, value).second) << parameter.name << " stands twice";
  }
  const ir::Shape tokens{dims.batch, dims.sequence};
  const ValueId x = builder.input("x", {c.compute, {dims.batch, dims.sequence, dims.hidden}}, ir::Role::batch);
  std::vector<RouterStats> routers;
  BuildContext context{.builder = builder,
                       .dims = dims,
                       .config = c.config,
                       .parallel = {},
                       .block = "block00",
                       .weights = weights,
                       .segments = builder.input("segments", {ir::DType::i32, tokens}, ir::Role::batch),
                       .adapter_scale = 2,
                       .routers = &routers};
  if (def.traits(c.config).reads_document_positions)
    context.document_positions = builder.input("document_positions", {ir::DType::i32, tokens}, ir::Role::batch);
  if (def.shared.build) context.shared = def.shared.build(context);
  const ValueId y = def.build(context, x);
  graph.add_output({.name = "y", .value = y});
  ops::verify(graph, ops::Form::built);
  EXPECT_EQ(graph.type(y), graph.type(x));
  const auto users = graph.users();
  for (const auto& [name, value] : weights) EXPECT_FALSE(users[value.index].empty()) << name << " is never read";
  EXPECT_EQ(routers.size(), def.traits(c.config).router.experts > 0 ? 1U : 0U);
  for (const ir::Node& node : graph.nodes()) EXPECT_EQ(ir::scope_block(node.scope), "block00") << node.op;
}

TEST_P(BlockTableTest, ParametersAreExactlyWhatTheGraphReads) { expect_parameters_are_read(GetParam(), {}); }

TEST_P(BlockTableTest, EveryMatrixTakesAdapters) { expect_parameters_are_read(GetParam(), {.rank = 2}); }

TEST_P(BlockTableTest, SplitsNameSettingsAndDimensionsOfItsParameters) {
  const Case& c = GetParam();
  const BlockDef& def = block_def(c.letter);
  const Traits traits = def.traits(c.config);
  std::set<Dim> dims_used;
  for (const Parameter& parameter : def.parameters({.hidden = 16}, c.config))
    dims_used.insert(parameter.dims.begin(), parameter.dims.end());
  const auto is_key = [&def](std::string_view name) {
    return std::ranges::find(def.keys, name, &ConfigKey::path) != def.keys.end();
  };
  for (const Split& split : traits.splits) {
    EXPECT_TRUE(is_key(split.key)) << split.key;
    EXPECT_GT(split.count, 0) << split.key;
    const bool only_routed = traits.router.experts > 0 && split.how == Split::How::padded;
    EXPECT_TRUE(only_routed || dims_used.contains(split.dim)) << split.key << " splits nothing";
  }
  for (const Width& width : traits.widths) EXPECT_TRUE(is_key(width.key)) << width.key;
}

TEST_P(BlockTableTest, StatePortsFollowTheSettings) {
  const Case& c = GetParam();
  const BlockDef& def = block_def(c.letter);
  const auto ports_of = [&](int64_t batch, int64_t sequence) {
    return def.state({.batch = batch, .sequence = sequence, .hidden = 16, .compute = c.compute}, c.config);
  };
  std::set<Dim> splits;
  for (const Split& split : def.traits(c.config).splits) splits.insert(split.dim);
  std::set<std::string> names;
  const std::vector<StatePort> one = ports_of(1, 8), three = ports_of(3, 8), longer = ports_of(1, 16);
  ASSERT_EQ(one.size(), three.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(names.insert(one[i].name).second) << one[i].name << " stands twice";
    ASSERT_EQ(one[i].dims.size(), one[i].type.shape.size()) << one[i].name;
    EXPECT_EQ(three[i].type.elements(), 3 * one[i].type.elements()) << one[i].name << " is kept for each sequence";
    EXPECT_GE(longer[i].type.elements(), one[i].type.elements());
    for (const Dim dim : one[i].dims)
      EXPECT_TRUE(dim == Dim::batch || dim == Dim::whole || splits.contains(dim)) << one[i].name;
  }
}

TEST(BlocksTest, DecodingKeepsWhatTheReferencesKeep) {
  const auto shapes = [](char letter, const Config& config, int64_t step_tokens = 1) {
    std::map<std::string, ir::Shape> shapes;
    const Dims dims{.batch = 2, .sequence = 100, .step_tokens = step_tokens};
    for (const StatePort& port : block_def(letter).state(dims, config)) shapes[port.name] = port.type.shape;
    return shapes;
  };
  using Shapes = std::map<std::string, ir::Shape>;
  const auto configs = small_configs();
  EXPECT_EQ(shapes('A', configs.at('A')), (Shapes{{"keys", {2, 100, 2, 4}}, {"values", {2, 100, 2, 4}}}));
  const Config local = Config::of(Attention{.heads = 4, .kv_heads = 2, .head_dim = 4, .window = 16});
  EXPECT_EQ(shapes('A', local).at("keys"), (ir::Shape{2, 16, 2, 4})) << "a window needs no more than itself";
  EXPECT_EQ(shapes('A', local, 8).at("keys"), (ir::Shape{2, 23, 2, 4})) << "of the first token of a step";
  EXPECT_EQ(shapes('M', configs.at('M')),
            (Shapes{{"conv.x", {2, 3, 16}}, {"conv.B", {2, 3, 8}}, {"conv.C", {2, 3, 8}}, {"ssm", {2, 4, 4, 4}}}));
  EXPECT_EQ(shapes('R', configs.at('R')), (Shapes{{"conv", {2, 3, 8}}, {"rg_lru", {2, 8}}}));
  EXPECT_TRUE(shapes('E', configs.at('E')).empty());
}

TEST(BlocksTest, EveryRecordIsWhole) {
  for (const BlockDef& def : all_blocks()) {
    EXPECT_FALSE(def.title.empty()) << def.letter;
    EXPECT_TRUE(def.check && def.traits && def.parameters && def.build && def.state) << def.letter;
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(def.letter))) << def.letter;
    Config config = def.defaults;
    std::set<std::string> names;
    for (const ConfigKey& key : def.keys) {
      EXPECT_TRUE(names.insert(key.path).second) << key.path << " stands twice";
      EXPECT_EQ(schema::kind_of(key.member(config)), key.kind) << key.path;
      EXPECT_NE(key.kind, schema::Kind::list) << key.path << ": a setting is one scalar";
      EXPECT_EQ(key.doc.back(), '.') << key.path;
    }
  }
}

TEST(BlocksTest, SettingsAreComparedAndTypesToldApart) {
  Config config = Config::of(Recurrent{.width = 8, .heads = 2});
  EXPECT_EQ(config, Config::of(Recurrent{.width = 8, .heads = 2}));
  config.as<Recurrent>().heads = 4;
  EXPECT_NE(config, Config::of(Recurrent{.width = 8, .heads = 2}));
  EXPECT_NE(config, Config::of(Mamba{}));
  EXPECT_EQ(config.get_if<Mamba>(), nullptr);
  EXPECT_THROW(config.as<Mamba>(), base::Error);
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
