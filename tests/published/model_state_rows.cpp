// SPDX-License-Identifier: Apache-2.0
#include "tests/published/model_state_rows.h"

namespace megacpp::published {
namespace {

// ---- Where we differ, by design ----

// There is one weight, in f32, and below zero 3 every chip has it whole: the update of its part ends with a gather.
// Published: a 16-bit weight whole, which is the copy here, and a master of which each chip has its part.
constexpr Difference kWholeMaster{"master weights are the stored weights, whole on every chip", {4, -4}};
// Weight gradients leave their product in f32 and are added up so. Published for ZeRO: 16 bits.
constexpr Difference kWideGradient{"gradients are f32, not 16 bits", {2, 0}};
constexpr Difference kWideSplitGradient{"gradients are f32, not 16 bits", {0, 2}};
// Zero 1 with a single micro-step: nothing is added up, so gradients are scattered as they are made, as with zero 2.
constexpr Difference kScatteredGradient{"a single micro-step scatters gradients, in f32", {-2, 4}};
// Others keep the 16-bit gradient of the backward pass beside the f32 one of the optimizer.
constexpr Difference kOneGradient{"one f32 gradient, no 16-bit one beside it", {-2, 0}};
constexpr Difference kOneWaitingGradient{"one f32 gradient, whole until the update; no 16-bit one, none split",
                                         {2, -4}};
constexpr Difference kOneSplitGradient{"one f32 gradient, no 16-bit one beside it", {0, -2}};
// The 16-bit weights of the products are made of the master ones each time these are gathered.
constexpr Difference kNoCopy{"no 16-bit weights beside the master ones", {0, -2}};

// The example of the ZeRO paper's figure 1: 7.5 billion parameters.
constexpr Sizes kFigure1{
    .layers = 36, .hidden = 4096, .heads = 32, .inner = 16384, .vocab = 61504, .sequence = 2048, .batch = 4};

}  // namespace

std::vector<StateRow> zero_rows() {
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
       .differences = {kWideSplitGradient, kNoCopy},
       .zero = 3,
       .weight = split4,
       .gradient = split4,
       .optimizer = split8,
       .copy = {0, 0}},
      {.name = "zero_3_f32",
       .source = paper + "16/d; in f32 4 + 4 + 8 are 16 too",
       .published = {0, 16},
       .differences = {},
       .precision = ir::DType::f32,
       .zero = 3,
       .weight = split4,
       .gradient = split4,
       .optimizer = split8,
       .copy = {0, 0}},
  };
}

// The same formulas at the size, and on as many chips, as figure 1 prints them.
std::vector<StateRow> figure_rows() {
  std::vector<StateRow> rows;
  for (StateRow& row : zero_rows()) {
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

std::vector<StateRow> megatron_rows() {
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
       .policy = recipe::Policy::megatron,
       .zero = 1,
       .optimizer = split8},
      {.name = "megatron_bf16_distributed_tensor",
       .source = "Megatron-LM, theoretical_memory_usage.py: parameters of a shard x (6 + 12/d)",
       .published = {6, 12},
       .differences = {kWholeMaster},
       .policy = recipe::Policy::megatron,
       .zero = 1,
       .tensor = 2,
       .optimizer = split8},
      {.name = "megatron_fp32_replicated",
       .source = table + "fp32 parameters, fp32 gradients: 16",
       .published = {16, 0},
       .differences = {},
       .precision = ir::DType::f32,
       .copy = {0, 0}},
      {.name = "megatron_fp32_distributed",
       .source = table + "fp32 parameters, fp32 gradients: 8 + 8/d",
       .published = {8, 8},
       .differences = {},
       .precision = ir::DType::f32,
       .policy = recipe::Policy::megatron,
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
       .policy = recipe::Policy::megatron,
       .zero = 1,
       .optimizer = split8},
  };
}

}  // namespace megacpp::published
