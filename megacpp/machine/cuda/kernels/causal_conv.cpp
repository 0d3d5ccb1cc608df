// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/causal_conv_params.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr size_t kConvPositions = 2;  // operand, where present

constexpr int64_t kMostConvSteps = 64;           // positions that a thread writes
constexpr int64_t kMostConvWeightSteps = 128;    // positions that a thread sums
constexpr int64_t kLeastConvSteps = 16;          // so that those before its first, read again, are few
constexpr int64_t kEnoughConvThreads = 1 << 17;  // for all multiprocessors of any card, twice over

ConvSizes conv_sizes(const ops::NodeView& view, int64_t width) {
  const ir::TensorType& x = view.operands[0];
  const int64_t seq = x.dim(-2), channels = x.dim(-1);
  return {.batch = x.elements() / std::max<int64_t>(1, seq * channels),
          .seq = seq,
          .channels = channels,
          .width = width,
          .reverse = view.attrs.flag("reverse") ? 1 : 0,
          .steps = 0};
}

// How a variant is named and how many channels its threads take: 16 bytes where rows are whole numbers of them.
struct ConvVariant {
  std::string suffix;
  int64_t channels;
};

ConvVariant conv_variant(Storage storage, const ConvSizes& sizes) {
  const int64_t widest = storage == Storage::bf16 ? 8 : storage == Storage::f32 ? 4 : 1;
  const int64_t channels = sizes.channels % widest == 0 ? widest : 1;
  return {"_" + std::string(storage_name(storage)) + "_" + std::to_string(channels), channels};
}

int64_t conv_threads(const ConvSizes& sizes, int64_t channels) {
  return sizes.batch * ceil_div(sizes.seq, sizes.steps) * (sizes.channels / channels);
}

// With threads of fewer steps where there are few of them.
ConvSizes conv_spread(ConvSizes sizes, int64_t most_steps, int64_t channels) {
  sizes.steps = most_steps;
  while (sizes.steps > kLeastConvSteps && conv_threads(sizes, channels) < kEnoughConvThreads) sizes.steps /= 2;
  return sizes;
}

LaunchShape conv_shape(const ConvSizes& sizes, int64_t channels) {
  return {.grid = {static_cast<uint32_t>(ceil_div(conv_threads(sizes, channels), kConvThreads)), 1, 1},
          .block = {kConvThreads, 1, 1}};
}

Prepared prepare_causal_conv(const ops::NodeView& view, Toolbox& toolbox) {
  const ConvSizes whole = conv_sizes(view, view.operands[1].dim(1));
  const Floats x = floats_at(view.operands, 0), w = floats_at(view.operands, 1), y = floats_at(view.results, 0);
  const bool has_positions = view.operands.size() > kConvPositions;
  const ConvVariant variant = conv_variant(storage_of({x, y}), whole);
  const ConvSizes sizes = conv_spread(whole, kMostConvSteps, variant.channels);
  const Function function = toolbox.function("causal_conv", "causal_conv" + variant.suffix);
  return {[=](const Launch& l) {
    launch(function, conv_shape(sizes, variant.channels), l.stream,
           CausalConvParams{.x = x.of(l.operands),
                            .w = w.of(l.operands),
                            .y = y.of(l.results),
                            .positions = has_positions ? l.operands[kConvPositions] : 0,
                            .sizes = sizes});
  }};
}

// How the weights' gradient is spread, and how many partial sums it has.
struct ConvWeightPlan {
  ConvVariant variant;
  ConvSizes sizes;

  int64_t parts() const { return sizes.batch * ceil_div(sizes.seq, sizes.steps); }
};

ConvWeightPlan conv_weight_plan(const ops::NodeView& view) {
  const ConvSizes whole = conv_sizes(view, view.attrs.integer("width"));
  const Floats x = floats_at(view.operands, 0), dy = floats_at(view.operands, 1);
  const ConvVariant variant = conv_variant(storage_of({x, dy}), whole);
  return {.variant = variant, .sizes = conv_spread(whole, kMostConvWeightSteps, variant.channels)};
}

int64_t conv_weight_workspace(const ops::NodeView& view) {
  const ConvWeightPlan weight = conv_weight_plan(view);
  return weight.parts() * weight.sizes.width * weight.sizes.channels * static_cast<int64_t>(sizeof(float));
}

Prepared prepare_causal_conv_weight(const ops::NodeView& view, Toolbox& toolbox) {
  const ConvWeightPlan weight = conv_weight_plan(view);
  const Floats x = floats_at(view.operands, 0), dy = floats_at(view.operands, 1), dw = floats_at(view.results, 0);
  const bool has_positions = view.operands.size() > kConvPositions;
  const Function parts = toolbox.function("causal_conv", "causal_conv_weight" + weight.variant.suffix);
  const Function sum = toolbox.function("causal_conv", "causal_conv_weight_sum");
  return {[=](const Launch& l) {
    launch(parts, conv_shape(weight.sizes, weight.variant.channels), l.stream,
           CausalConvWeightParams{.x = x.of(l.operands),
                                  .dy = dy.of(l.operands),
                                  .positions = has_positions ? l.operands[kConvPositions] : 0,
                                  .partial = l.workspace,
                                  .sizes = weight.sizes});
    const int64_t blocks = ceil_div(weight.sizes.channels * weight.sizes.width, kConvSumColumns);
    launch(sum, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kConvSumColumns, kConvSumRows, 1}}, l.stream,
           CausalConvWeightSumParams{.partial = l.workspace,
                                     .dw = dw.of(l.results),
                                     .db = {0, 0},
                                     .parts = weight.parts(),
                                     .channels = weight.sizes.channels,
                                     .width = weight.sizes.width});
  }};
}

// ---- All gradients in one walk

constexpr size_t kConvGradPositions = 3;  // operand, where present
constexpr int64_t kConvGradChannels = 4;  // of a thread, where rows are whole numbers of them

base::Decision supports_causal_conv_grad(const ops::NodeView& view) {
  const int64_t width = view.operands[2].dim(1);
  return width >= 2 && width <= 4 ? base::Decision::yes()
                                  : base::Decision::no(std::to_string(width) + " taps; registers keep 2 to 4");
}

ConvWeightPlan conv_grad_plan(const ops::NodeView& view) {
  ConvSizes whole = conv_sizes(view, view.operands[2].dim(1));
  whole.reverse = 1 - whole.reverse;
  const Floats x = floats_at(view.operands, 0), dy = floats_at(view.operands, 1);
  // Sums, taps and the last few dy of more channels would leave registers for few threads.
  const int64_t channels = whole.channels % kConvGradChannels == 0 ? kConvGradChannels : 1;
  const ConvVariant variant{"_" + std::string(storage_name(storage_of({x, dy}))) + "_" + std::to_string(channels),
                            channels};
  return {.variant = variant, .sizes = conv_spread(whole, kMostConvWeightSteps, variant.channels)};
}

int64_t conv_grad_workspace(const ops::NodeView& view) {
  const ConvWeightPlan plan = conv_grad_plan(view);
  return plan.parts() * (plan.sizes.width + 1) * plan.sizes.channels * static_cast<int64_t>(sizeof(float));
}

Prepared prepare_causal_conv_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const ConvWeightPlan plan = conv_grad_plan(view);
  const Floats x = floats_at(view.operands, 0), dy = floats_at(view.operands, 1), w = floats_at(view.operands, 2);
  const Floats dx = floats_at(view.results, 0), dw = floats_at(view.results, 1), db = floats_at(view.results, 2);
  const bool has_positions = view.operands.size() > kConvGradPositions;
  const Function walk = toolbox.function("causal_conv", "causal_conv_grad" + plan.variant.suffix);
  const Function sum = toolbox.function("causal_conv", "causal_conv_weight_sum");
  const int64_t blocks = ceil_div(plan.sizes.channels * (plan.sizes.width + 1), kConvSumColumns);
  return {[=](const Launch& l) {
    launch(walk, conv_shape(plan.sizes, plan.variant.channels), l.stream,
           CausalConvGradParams{.x = x.of(l.operands),
                                .dy = dy.of(l.operands),
                                .w = w.of(l.operands),
                                .dx = dx.of(l.results),
                                .positions = has_positions ? l.operands[kConvGradPositions] : 0,
                                .partial = l.workspace,
                                .sizes = plan.sizes});
    launch(sum, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kConvSumColumns, kConvSumRows, 1}}, l.stream,
           CausalConvWeightSumParams{.partial = l.workspace,
                                     .dw = dw.of(l.results),
                                     .db = db.of(l.results),
                                     .parts = plan.parts(),
                                     .channels = plan.sizes.channels,
                                     .width = plan.sizes.width});
  }};
}

}  // namespace

Kernel causal_conv_kernel() {
  return {.op = "causal_conv", .least_seconds = at_least(4e-6), .prepare = prepare_causal_conv};
}
Kernel causal_conv_weight_kernel() {
  return {.op = "causal_conv_weight",
          .workspace_bytes = conv_weight_workspace,
          .least_seconds = at_least(7.5e-6),
          .prepare = prepare_causal_conv_weight};
}

Kernel causal_conv_grad_kernel() {
  return {.op = "causal_conv_grad",
          .workspace_bytes = conv_grad_workspace,
          .least_seconds = at_least(7.5e-6),
          .supports = supports_causal_conv_grad,
          .prepare = prepare_causal_conv_grad};
}

}  // namespace megacpp::runtime::cuda
