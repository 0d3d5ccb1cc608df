// SPDX-License-Identifier: Apache-2.0
// Experts by the reference evaluator: how tokens are stored, in how many chunks and in which order, and where experts
// live, changes nothing; sequences do not see each other.
#include "megacpp/program/blocks/feed_forward.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/ops/evaluator.h"
#include "tests/support/expert_configs.h"

namespace megacpp::blocks {
namespace {

using ops::Tensor;

constexpr int64_t kSequence = 24, kHidden = 6, kExperts = 4;

struct Case {
  std::string name;
  FeedForward config;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& [name, config] : testing_support::expert_configs(5, 3)) cases.push_back({name, config});
  return cases;
}

// Few different tokens, so that many scores are equal.
Tensor token_values(int64_t batch) {
  Tensor x = Tensor::zeros({ir::DType::f32, {batch, kSequence, kHidden}});
  const base::Philox random(5, "x");
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t token = i / kHidden, kind = token * token % 5;
    x[i] = 2 * random.uniform(static_cast<uint64_t>(kind * kHidden + i % kHidden)) - 1;
  }
  return x;
}

// y, counts and dropped of one block.
std::map<std::string, Tensor> run(const FeedForward& config, const Parallel& parallel, const Tensor& x,
                                  const std::optional<Tensor>& positions = std::nullopt) {
  const Dims dims{.batch = x.type.dim(0), .sequence = kSequence, .hidden = kHidden, .init_std = 1, .output_std = 1};
  const Config settings = Config::of(config);
  ir::Graph graph("experts");
  ops::Builder b(graph);
  std::map<std::string, ValueId> weights;
  std::map<std::string, Tensor> inputs = {{"x", x}};
  for (const Parameter& parameter : block_def('E').parameters(dims, settings)) {
    weights[parameter.name] = b.input(parameter.name, {ir::DType::f32, parameter.shape}, ir::Role::weight);
    Tensor& value = inputs[parameter.name] = Tensor::zeros({ir::DType::f32, parameter.shape});
    const base::Philox random(7, parameter.name);
    for (int64_t i = 0; i < value.elements(); ++i) value[i] = 2 * random.uniform(static_cast<uint64_t>(i)) - 1;
  }
  std::vector<RouterStats> routers;
  BuildContext context{.builder = b,
                       .dims = dims,
                       .config = settings,
                       .parallel = parallel,
                       .block = "block00",
                       .weights = weights,
                       .routers = &routers};
  if (positions) {
    context.positions = b.input("positions", positions->type, ir::Role::batch);
    inputs["positions"] = *positions;
  }
  const ValueId y = block_def('E').build(context, b.input("x", x.type, ir::Role::batch));
  graph.add_output({.name = "y", .value = y});
  graph.add_output({.name = "counts", .value = routers.at(0).counts});
  graph.add_output({.name = "dropped", .value = routers.at(0).dropped});
  return ops::evaluate(graph, inputs, ops::Rounding::none);
}

void expect_equal(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.type, wanted.type);
  for (int64_t i = 0; i < wanted.elements(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-12) << "element " << i;
}

// The chunks of each sequence of x[batch, sequence, hidden] in the order they are stored, or back in time.
Tensor reordered(const Tensor& x, const std::vector<int64_t>& time, bool back) {
  Tensor result = x;
  const int64_t chunks = static_cast<int64_t>(time.size()), width = kSequence / chunks * kHidden;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t chunk = i / width % chunks, moved = i + (time[static_cast<size_t>(chunk)] - chunk) * width;
    (back ? result[moved] : result[i]) = back ? x[i] : x[moved];
  }
  return result;
}

Tensor positions_of(const std::vector<int64_t>& time) {
  Tensor positions = Tensor::zeros({ir::DType::i32, {kSequence}});
  const int64_t length = kSequence / static_cast<int64_t>(time.size());
  for (int64_t t = 0; t < kSequence; ++t)
    positions[t] = static_cast<double>(time[static_cast<size_t>(t / length)] * length + t % length);
  return positions;
}

class ExpertsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Routings, ExpertsTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(ExpertsTest, ChunksInAnyOrderChangeNothing) {
  const Tensor x = token_values(2);
  const auto wanted = run(GetParam().config, {}, x);
  for (const bool balanced : {false, true}) {
    SCOPED_TRACE(balanced ? "balanced order" : "time order");
    const Parallel parallel{.sequence_chunks = 4, .token_chunks = 8, .balanced_order = balanced};
    const std::vector<int64_t> time = parallel.time_order(8);
    const auto got = run(GetParam().config, parallel, reordered(x, time, false), positions_of(time));
    expect_equal(reordered(got.at("y"), time, true), wanted.at("y"));
    expect_equal(got.at("counts"), wanted.at("counts"));
    expect_equal(got.at("dropped"), wanted.at("dropped"));
  }
}

TEST_P(ExpertsTest, ExpertsWithOwnersGiveTheSame) {
  const Tensor x = token_values(2);
  const Parallel parallel{.mesh = ir::Mesh({{"expert", 1}}), .axes = {{Dim::experts, {0}}}};
  expect_equal(run(GetParam().config, parallel, x).at("y"), run(GetParam().config, {}, x).at("y"));
}

TEST_P(ExpertsTest, SequencesDoNotSeeEachOther) {
  const Tensor both = token_values(2);
  const auto together = run(GetParam().config, {}, both);
  const int64_t half = both.elements() / 2;
  Tensor dropped = Tensor::zeros(together.at("dropped").type);
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    Tensor alone = Tensor::zeros({ir::DType::f32, {1, kSequence, kHidden}}), wanted = alone;
    std::copy_n(both.data.begin() + sequence * half, half, alone.data.begin());
    std::copy_n(together.at("y").data.begin() + sequence * half, half, wanted.data.begin());
    const auto got = run(GetParam().config, {}, alone);
    expect_equal(got.at("y"), wanted);
    for (int64_t expert = 0; expert < kExperts; ++expert) dropped[expert] += got.at("dropped")[expert];
  }
  expect_equal(together.at("dropped"), dropped);
}

TEST_P(ExpertsTest, CountsAndDropsAddUpToTheRequests) {
  const FeedForward& f = GetParam().config;
  const auto result = run(f, {}, token_values(2));
  double requests = 0;
  for (const double count : result.at("counts").data) requests += count;
  const int64_t choices = f.routing == RoutedBy::experts ? kExperts * f.capacity(kSequence) : kSequence * f.top_k;
  EXPECT_EQ(requests, static_cast<double>(2 * choices));
  double dropped = 0;
  for (size_t expert = 0; expert < kExperts; ++expert) {
    EXPECT_LE(result.at("dropped").data[expert], result.at("counts").data[expert]) << "expert " << expert;
    dropped += result.at("dropped").data[expert];
  }
  EXPECT_EQ(dropped > 0, f.routing == RoutedBy::tokens && !f.is_dropless());
}

TEST(FeedForwardTest, CapacityIsRoundedUpAndBounded) {
  const FeedForward f{.experts = 4, .top_k = 2, .capacity_factor = 1.25};
  EXPECT_EQ(f.capacity(16), 10);
  EXPECT_EQ(f.capacity(1), 1);
  const FeedForward roomy{.experts = 2, .top_k = 2, .capacity_factor = 8};
  EXPECT_EQ(roomy.capacity(16), 16) << "an expert never sees a token twice";
}

}  // namespace
}  // namespace megacpp::blocks
