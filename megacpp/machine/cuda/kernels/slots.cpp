// SPDX-License-Identifier: Apache-2.0
// Which tokens experts take and in which row, all on the device: nothing waits for a count to reach the host.
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/slots_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

LaunchShape slot_blocks(int64_t count) {
  return {.grid = {static_cast<uint32_t>(count), 1, 1}, .block = {kSlotWarps * 32, 1, 1}};
}

Prepared prepare_counts(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& experts = view.operands[0];  // [b, c, l, k]
  const int64_t chunks = experts.dim(0) * experts.dim(1), choices = experts.dim(2) * experts.dim(3);
  const int64_t num_experts = view.attrs.integer("num_experts");
  const Function function = toolbox.function("slots", "expert_counts");
  return {[=](const Launch& l) {
    launch(function, slot_blocks(chunks), l.stream,
           ExpertCountsParams{
               .experts = l.operands[0], .counts = l.results[0], .choices = choices, .num_experts = num_experts});
  }};
}

Prepared prepare_token_choice(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& experts = view.operands[0];  // [b, c, l, k]
  const int64_t chunks = experts.dim(0) * experts.dim(1);
  const bool has_before = view.operands.size() == 2;
  const TokenChoiceParams node = {.experts = 0,
                                  .before = 0,
                                  .slots = 0,
                                  .choices = experts.dim(2) * experts.dim(3),
                                  .num_experts = view.attrs.integer("num_experts"),
                                  .capacity = view.attrs.integer("capacity"),
                                  .rows_per_expert = view.attrs.integer("rows_per_expert")};
  const Function function = toolbox.function("slots", "token_choice_slots");
  return {[=](const Launch& l) {
    TokenChoiceParams params = node;
    params.experts = l.operands[0];
    params.before = has_before ? l.operands[1] : 0;
    params.slots = l.results[0];
    launch(function, slot_blocks(chunks), l.stream, params);
  }};
}

Prepared prepare_expert_choice(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& type = view.operands[0];  // [b, s, E]
  const int64_t sequences = type.dim(0), tokens = type.dim(1), experts = type.dim(2);
  const int64_t taken = std::min(view.attrs.integer("capacity"), tokens);
  const Floats scores = floats_at(view.operands, 0);
  const bool has_times = view.operands.size() == 2;
  const Function function = toolbox.function("slots", "expert_choice");
  return {[=](const Launch& l) {
    launch(function, slot_blocks(tokens == 0 ? 0 : sequences * experts), l.stream,
           ExpertChoiceParams{.scores = scores.of(l.operands),
                              .times = has_times ? l.operands[1] : 0,
                              .chosen = l.results[0],
                              .tokens = tokens,
                              .experts = experts,
                              .taken = taken});
  }};
}

}  // namespace

Kernel expert_counts_kernel() { return {.op = "expert_counts", .prepare = prepare_counts}; }
Kernel token_choice_slots_kernel() { return {.op = "token_choice_slots", .prepare = prepare_token_choice}; }
Kernel expert_choice_kernel() { return {.op = "expert_choice", .prepare = prepare_expert_choice}; }

}  // namespace megacpp::runtime::cuda
