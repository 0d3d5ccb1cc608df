// SPDX-License-Identifier: Apache-2.0
// Every parameter of every family falls into the group it should.
#include "megacpp/program/optim/parameter_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"

namespace megacpp::optim {
namespace {

using blocks::Config;
using blocks::Parameter;
using blocks::ParameterKind;

// With everything that adds parameters.
std::map<char, Config> configs() {
  return {{'A', Config::of(blocks::Attention{.heads = 4, .kv_heads = 2, .head_dim = 4, .qk_norm = true})},
          {'E', Config::of(
                    blocks::FeedForward{.intermediate = 12, .experts = 4, .shared_intermediate = 8, .bias_rate = 0.1})},
          {'M', Config::of(blocks::Mamba{.heads = 4, .head_dim = 4, .state = 4, .groups = 2, .conv_bias = true})},
          {'R', Config::of(blocks::Recurrent{.width = 8, .heads = 2})}};
}

// Names of a family's trainable parameters in one group.
std::set<std::string> names_in(char letter, std::string_view group, const Optimizer& settings) {
  std::set<std::string> names;
  for (const blocks::BlockDef& def : blocks::all_blocks())
    if (def.letter == letter)
      for (const Parameter& parameter : def.parameters({.hidden = 16}, configs().at(letter)))
        if (group_name(settings, parameter) == group) names.insert(parameter.name);
  return names;
}

using Names = std::set<std::string>;
constexpr const char* kMatrices = "Muon, decay 0.1";
constexpr const char* kDecayed = "AdamW, decay 0.1";
constexpr const char* kNotDecayed = "AdamW, no decay";

TEST(ParameterGroupsTest, EveryParameterOfEveryFamilyIsInItsGroup) {
  const Optimizer muon{.name = "muon"};
  EXPECT_EQ(names_in('A', kMatrices, muon), (Names{"wq", "wk", "wv", "wo"}));
  EXPECT_EQ(names_in('A', kDecayed, muon), Names{});
  EXPECT_EQ(names_in('A', kNotDecayed, muon), (Names{"q_norm", "k_norm"}));
  EXPECT_EQ(names_in('E', kMatrices, muon),
            (Names{"router", "w_gate", "w_up", "w_down", "shared.w_gate", "shared.w_up", "shared.w_down"}));
  EXPECT_EQ(names_in('E', kDecayed, muon), Names{});
  EXPECT_EQ(names_in('E', kNotDecayed, muon), Names{});
  EXPECT_EQ(names_in('E', "", muon), Names{"expert_bias"}) << "nothing trains it";
  EXPECT_EQ(names_in('M', kMatrices, muon),
            (Names{"in_proj.z", "in_proj.x", "in_proj.B", "in_proj.C", "in_proj.dt", "out_proj"}));
  EXPECT_EQ(names_in('M', kDecayed, muon), (Names{"conv.x.weight", "conv.B.weight", "conv.C.weight"}));
  EXPECT_EQ(names_in('M', kNotDecayed, muon),
            (Names{"A_log", "D", "dt_bias", "gate_norm.weight", "conv.x.bias", "conv.B.bias", "conv.C.bias"}));
  EXPECT_EQ(names_in('R', kMatrices, muon), (Names{"linear_x.weight", "linear_y.weight", "linear_out.weight",
                                                   "input_gate.weight", "recurrent_gate.weight"}));
  EXPECT_EQ(names_in('R', kDecayed, muon), Names{"conv.weight"});
  EXPECT_EQ(names_in('R', kNotDecayed, muon), (Names{"linear_x.bias", "linear_y.bias", "linear_out.bias", "conv.bias",
                                                     "input_gate.bias", "recurrent_gate.bias", "p"}));
}

TEST(ParameterGroupsTest, MethodsAreThoseOfTheOptimizer) {
  EXPECT_EQ(names_in('A', kDecayed, {}), (Names{"wq", "wk", "wv", "wo"}));
  EXPECT_EQ(names_in('A', "SGD with momentum, no decay", {.name = "sgd"}), (Names{"q_norm", "k_norm"}));
}

TEST(ParameterGroupsTest, KindsAndPatternsOfNamesDecide) {
  const Parameter embedding{"embed.weight", {4, 2}, {}, {}, ParameterKind::embedding};
  const Parameter log{"block03.M.A_log", {4}, {}, {}, ParameterKind::recurrence};
  const Parameter wq{"block12.A.wq", {4, 4}, {}, {}};
  const auto is_exempt = [](const Parameter& parameter, std::vector<std::string> no_decay) {
    return !is_decayed({.no_decay = std::move(no_decay)}, parameter);
  };
  EXPECT_FALSE(is_exempt(embedding, {"norm", "bias", "recurrence"}));
  EXPECT_TRUE(is_exempt(embedding, {"embedding"}));
  EXPECT_TRUE(is_exempt(embedding, {"embed.weight"}));
  EXPECT_FALSE(is_exempt(log, {}));
  EXPECT_TRUE(is_exempt(log, {"block*.M.A_log"}));
  EXPECT_TRUE(is_exempt(log, {"*.A_log"}));
  EXPECT_TRUE(is_exempt(log, {"*"}));
  EXPECT_FALSE(is_exempt(log, {"block*.M.A"}));
  EXPECT_TRUE(is_exempt(wq, {"block*2.A.*"}));
  EXPECT_FALSE(is_exempt(wq, {"block*3.A.*"}));
  EXPECT_TRUE(!is_decayed({.weight_decay = 0, .no_decay = {}}, wq));
}

TEST(ParameterGroupsTest, APatternThatNamesNothingIsFound) {
  const std::vector<Parameter> parameters = {{"block00.A.wq", {4, 4}, {}, {}}};
  EXPECT_EQ(unmatched_pattern({.no_decay = {"norm", "*.wq"}}, parameters), std::nullopt);
  EXPECT_EQ(unmatched_pattern({.no_decay = {"*.wq", "*.wk"}}, parameters), "*.wk");
}

}  // namespace
}  // namespace megacpp::optim
