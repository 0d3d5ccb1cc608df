// SPDX-License-Identifier: Apache-2.0
// Weights, gradients and optimizer state against the bytes per parameter of the ZeRO paper, of DeepSpeed and of
// Megatron-Core. Every row is exact, to the byte: the plan is the published number plus the differences the row names.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/published/dense_transformer.h"

namespace megacpp::published {
namespace {

// Bytes per parameter: what every chip holds, and what the d chips that share the batch hold together.
struct PerParameter {
  int64_t whole = 0;
  int64_t split = 0;

  int64_t bytes(int64_t parameters, int64_t chips) const {
    EXPECT_EQ(parameters % chips, 0) << "a size that does not divide is padded, and no formula counts that";
    return whole * parameters + split * parameters / chips;
  }
};

struct Difference {
  std::string why;
  PerParameter ours_less_theirs;
};

// ---- Where we differ, by design ----

// There is one weight, in f32, and below zero 3 every chip has it whole: the update of its part ends with a gather.
// Published: a 16-bit weight whole, which is the copy here, and a master of which each chip has its part.
const Difference kWholeMaster{"master weights are the stored weights, whole on every chip", {4, -4}};
// Weight gradients leave their product in f32 and are added up so. Published for ZeRO: 16 bits.
const Difference kWideGradient{"gradients are f32, not 16 bits", {2, 0}};
const Difference kWideSplitGradient{"gradients are f32, not 16 bits", {0, 2}};
// Zero 1 with a single micro-step: nothing is added up, so gradients are scattered as they are made, as with zero 2.
const Difference kScatteredGradient{"a single micro-step scatters gradients, in f32", {-2, 4}};
// Others keep the 16-bit gradient of the backward pass beside the f32 one of the optimizer.
const Difference kOneGradient{"one f32 gradient, no 16-bit one beside it", {-2, 0}};
const Difference kOneWaitingGradient{"one f32 gradient, whole until the update; no 16-bit one, none split", {2, -4}};
const Difference kOneSplitGradient{"one f32 gradient, no 16-bit one beside it", {0, -2}};
// Without recompute the 16-bit weights of the products are kept from forward to backward, whole as they are gathered.
const Difference kWholeCopy{"16-bit weights are kept whole from forward to backward", {2, -2}};

// The example of the ZeRO paper's figure 1: 7.5 billion parameters.
constexpr Sizes kFigure1{
    .layers = 36, .hidden = 4096, .heads = 32, .inner = 16384, .vocab = 61504, .sequence = 2048, .batch = 4};

struct Row {
  std::string name;
  std::string source;
  PerParameter published;
  std::vector<Difference> differences;
  // What a run of ours is told.
  std::string precision = "bf16";
  std::string lane = "spmd";
  int64_t zero = 0;
  int64_t chips = 4;   // d
  int64_t tensor = 1;  // t; each chip has that part of every parameter but norms
  int64_t micro_steps = 2;
  // What it plans, by role; `copy`: 16-bit weights kept from forward to backward.
  PerParameter weight = {4, 0}, gradient = {4, 0}, optimizer = {8, 0}, copy = {2, 0};
  Sizes sizes = {};
  double printed_gigabytes = 0;  // where the source gives a number for these sizes, to one decimal

  /// Those a chip computes with.
  int64_t parameters() const {
    const int64_t norms = (2 * sizes.layers + 1) * sizes.hidden;
    return (sizes.parameters() - norms) / tensor + norms;
  }
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> zero_rows() {
  const std::string paper = "arXiv:1910.02054, section 5 and figure 1: ", code = "DeepSpeed, stage_1_and_2.py: ";
  const PerParameter split4{0, 4}, split8{0, 8};
  return {
      {.name = "zero_baseline",
       .source = paper + "2 + 2 + 12 = 16",
       .published = {16, 0},
       .differences = {kWideGradient}},
      {.name = "zero_1",
       .source = paper + "4 + 12/d",
       .published = {4, 12},
       .differences = {kWideGradient, kWholeMaster},
       .zero = 1,
       .optimizer = split8},
      {.name = "zero_1_single_micro_step",
       .source = paper + "4 + 12/d",
       .published = {4, 12},
       .differences = {kScatteredGradient, kWholeMaster},
       .zero = 1,
       .micro_steps = 1,
       .gradient = split4,
       .optimizer = split8},
      {.name = "zero_2",
       .source = paper + "2 + 14/d",
       .published = {2, 14},
       .differences = {kWideSplitGradient, kWholeMaster},
       .zero = 2,
       .gradient = split4,
       .optimizer = split8},
      {.name = "zero_2_deepspeed",
       .source = code + "2 + 18/d",
       .published = {2, 18},
       .differences = {kOneSplitGradient, kWholeMaster},
       .zero = 2,
       .gradient = split4,
       .optimizer = split8},
      {.name = "zero_3",
       .source = paper + "16/d",
       .published = {0, 16},
       .differences = {kWideSplitGradient, kWholeCopy},
       .zero = 3,
       .weight = split4,
       .gradient = split4,
       .optimizer = split8},
      {.name = "zero_3_f32",
       .source = paper + "16/d; in f32 4 + 4 + 8 are 16 too",
       .published = {0, 16},
       .differences = {},
       .precision = "f32",
       .zero = 3,
       .weight = split4,
       .gradient = split4,
       .optimizer = split8,
       .copy = {0, 0}},
  };
}

// The same formulas at the size, and on as many chips, as figure 1 prints them.
std::vector<Row> figure_rows() {
  std::vector<Row> rows;
  for (Row& row : zero_rows()) {
    const double printed = row.name == "zero_baseline" ? 120.0
                           : row.name == "zero_1"      ? 31.4
                           : row.name == "zero_2"      ? 16.6
                           : row.name == "zero_3"      ? 1.9
                                                       : 0;
    if (printed == 0) continue;
    row.name += "_figure_1";
    row.chips = 64;
    row.sizes = kFigure1;
    row.printed_gigabytes = printed;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> megatron_rows() {
  const std::string table = "Megatron-Core, docs api-guide/dist_optimizer: ";
  const PerParameter split8{0, 8};
  return {
      {.name = "megatron_bf16_replicated",
       .source = table + "bf16 parameters, fp32 gradients: 18",
       .published = {18, 0},
       .differences = {}},
      {.name = "megatron_bf16_distributed",
       .source = table + "bf16 parameters, fp32 gradients: 6 + 12/d",
       .published = {6, 12},
       .differences = {kWholeMaster},
       .lane = "megatron",
       .zero = 1,
       .optimizer = split8},
      {.name = "megatron_bf16_distributed_tensor",
       .source = "Megatron-LM, theoretical_memory_usage.py: parameters of a shard x (6 + 12/d)",
       .published = {6, 12},
       .differences = {kWholeMaster},
       .lane = "megatron",
       .zero = 1,
       .tensor = 2,
       .optimizer = split8},
      {.name = "megatron_fp32_replicated",
       .source = table + "fp32 parameters, fp32 gradients: 16",
       .published = {16, 0},
       .differences = {},
       .precision = "f32",
       .copy = {0, 0}},
      {.name = "megatron_fp32_distributed",
       .source = table + "fp32 parameters, fp32 gradients: 8 + 8/d",
       .published = {8, 8},
       .differences = {},
       .precision = "f32",
       .lane = "megatron",
       .zero = 1,
       .optimizer = split8,
       .copy = {0, 0}},
      {.name = "megatron_fp16_replicated",
       .source = table + "fp16 parameters, fp16 gradients: 20",
       .published = {20, 0},
       .differences = {kOneGradient}},
      {.name = "megatron_fp16_distributed",
       .source = table + "fp16 parameters, fp16 gradients: 4 + 16/d",
       .published = {4, 16},
       .differences = {kOneWaitingGradient, kWholeMaster},
       .lane = "megatron",
       .zero = 1,
       .optimizer = split8},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> rows = zero_rows();
  for (const auto& more : {figure_rows(), megatron_rows()}) rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

class ModelStatesTest : public testing::TestWithParam<Row> {};

TEST_P(ModelStatesTest, IsThePublishedNumberAndTheNamedDifferences) {
  const Row& row = GetParam();
  recipe::Layout layout;
  layout.lane = row.lane;
  layout.zero = row.zero;
  layout.data_parallel = row.chips;
  layout.tensor_parallel = row.tensor;
  recipe::Recipe recipe = dense_transformer(row.sizes, layout);
  recipe.train.precision = row.precision;
  recipe.train.micro_steps = row.micro_steps;
  const memory::MemoryPlan plan = plan_of(recipe);
  const auto bytes = [&](const PerParameter& each) { return each.bytes(row.parameters(), row.chips); };

  const int64_t weight = bytes_of(plan, ir::Role::weight), gradient = bytes_of(plan, ir::Role::gradient),
                optimizer = bytes_of(plan, ir::Role::optimizer);
  // Everything but the loss: its one number is kept too.
  const int64_t copy = kept_bytes(recipe, [](const std::string& block) { return block != "loss"; }).of_weights;
  EXPECT_EQ(weight, bytes(row.weight));
  EXPECT_EQ(gradient, bytes(row.gradient));
  EXPECT_EQ(optimizer, bytes(row.optimizer));
  EXPECT_EQ(copy, bytes(row.copy));

  int64_t explained = bytes(row.published);
  std::string why;
  for (const Difference& each : row.differences) {
    explained += bytes(each.ours_less_theirs);
    why += "\n  " + std::to_string(bytes(each.ours_less_theirs)) + ": " + each.why;
  }
  EXPECT_EQ(weight + gradient + optimizer + copy, explained)
      << row.source << " is " << bytes(row.published) << " bytes; ours should differ by" << why;
  if (row.printed_gigabytes > 0) {
    EXPECT_NEAR(static_cast<double>(bytes(row.published)) / 1e9, row.printed_gigabytes, 0.05) << row.source;
  }
}

INSTANTIATE_TEST_SUITE_P(Published, ModelStatesTest, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row.param.name; });

// No formula counts alignment. It is at most one unit for each tensor.
TEST(ModelStatesTest, AlignmentIsLessThanOneUnitPerTensor) {
  const memory::MemoryPlan plan = plan_of(dense_transformer({}, {}));
  int64_t bytes = 0;
  for (const memory::StateSlot& slot : plan.state) bytes += slot.type.bytes();
  constexpr int64_t kUnit = 64;
  EXPECT_GE(plan.state_bytes, bytes);
  EXPECT_LT(plan.state_bytes - bytes, kUnit * static_cast<int64_t>(plan.state.size()));
}

}  // namespace
}  // namespace megacpp::published
