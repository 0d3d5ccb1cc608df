// SPDX-License-Identifier: Apache-2.0
// The tables of rope against their formulas, written out pair by pair.
#include "megacpp/program/blocks/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "megacpp/program/ops/evaluator.h"

namespace megacpp::blocks {
namespace {

constexpr int64_t kTokens = 40;

Attention attention(RopeScaling scaling) {
  Attention a{.heads = 1, .kv_heads = 1, .head_dim = 16, .rope_theta = 500, .rope_scaling = scaling};
  if (scaling == RopeScaling::none) return a;
  a.rope_factor = 8;
  if (scaling != RopeScaling::linear) a.rope_original_length = 64;
  return a;
}

std::map<std::string, ops::Tensor> tables_of(const Attention& a) {
  ir::Graph graph("rope");
  ops::Builder builder(graph);
  const Dims dims{.batch = 1, .sequence = kTokens, .hidden = 16};
  const Config config = Config::of(a);
  const BuildContext context{
      .builder = builder, .dims = dims, .config = config, .parallel = {}, .block = "", .weights = {}};
  for (const auto& [name, value] : rope_tables(context)) graph.add_output({.name = name, .value = value});
  return ops::evaluate(graph, {});
}

/// Of each pair as often as it turns over the original context, by itself.
void expect_frequencies(const Attention& a, double amplitude,
                        const std::function<double(int64_t pair, double frequency)>& stretched) {
  const auto tables = tables_of(a);
  const int64_t pairs = a.turned_pairs();
  ASSERT_EQ(tables.at("rope_cos").type.shape, (ir::Shape{kTokens, pairs}));
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double exponent = -2 * static_cast<double>(pair) / static_cast<double>(a.turned());
    const double frequency = stretched(pair, std::pow(a.rope_theta, exponent));
    for (const int64_t token : {int64_t{1}, kTokens - 1}) {
      const double angle = frequency * static_cast<double>(token);
      EXPECT_NEAR(tables.at("rope_cos")[token * pairs + pair], amplitude * std::cos(angle), 1e-5) << pair;
      EXPECT_NEAR(tables.at("rope_sin")[token * pairs + pair], amplitude * std::sin(angle), 1e-5) << pair;
    }
  }
}

TEST(RopeTest, WithoutScalingEveryPairHasItsFrequency) {
  Attention a = attention(RopeScaling::none);
  expect_frequencies(a, 1, [](int64_t, double frequency) { return frequency; });
  a.rotary_dim = 6;
  expect_frequencies(a, 1, [](int64_t, double frequency) { return frequency; });
  a.rotary_dim = 3;  // the third channel turns with the fourth
  expect_frequencies(a, 1, [](int64_t, double frequency) { return frequency; });
}

TEST(RopeTest, LinearScalingDividesAll) {
  expect_frequencies(attention(RopeScaling::linear), 1, [](int64_t, double frequency) { return frequency / 8; });
}

TEST(RopeTest, Llama3KeepsFastPairsAndDividesSlowOnes) {
  expect_frequencies(attention(RopeScaling::llama3), 1, [](int64_t, double frequency) {
    const double turns = 64 * frequency / (2 * std::numbers::pi);
    if (turns > 4) return frequency;
    if (turns < 1) return frequency / 8;
    const double part = (turns - 1) / (4 - 1);
    return part * frequency + (1 - part) * frequency / 8;
  });
}

TEST(RopeTest, YarnMixesByPlacesOfPairsAndGrows) {
  Attention a = attention(RopeScaling::yarn);
  const auto place = [](double turns) {
    return 16 * std::log(64 / (turns * 2 * std::numbers::pi)) / (2 * std::log(500.0));
  };
  const auto mixed = [](double first, double last) {
    return [first, last](int64_t pair, double frequency) {
      const double part = std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
      return (1 - part) * frequency + part * frequency / 8;
    };
  };
  expect_frequencies(a, 0.1 * std::log(8.0) + 1, mixed(0, std::ceil(place(1))));
  a.rope_whole_channels = false;
  a.rope_amplitude = 1.5;
  a.rope_fast_turns = 8;
  expect_frequencies(a, 1.5, mixed(std::max(0.0, place(8)), place(1)));
}

}  // namespace
}  // namespace megacpp::blocks
