// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/ssd_grad_mma.h"

#include <string>

#include "megacpp/machine/cuda/kernels/workspace_plan.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kBf16Bytes = 2;
constexpr int64_t kDirections = 2;  // of the walks that keep states

int64_t ssd_chunks_of(const SsdSizes& z) { return ceil_div(z.seq, kSsdChunk); }

LaunchShape ssd_mma_shape(int64_t blocks, uint32_t warps, int shared_bytes) {
  return {.grid = {static_cast<uint32_t>(blocks), 1, 1},
          .block = {warps * 32, 1, 1},
          .shared_bytes = static_cast<uint32_t>(shared_bytes)};
}

}  // namespace

SsdGradMma::Plan SsdGradMma::plan_of(const SsdSizes& z) {
  const int64_t chunks = ssd_chunks_of(z), state_bytes = z.head_dim * z.state * kBf16Bytes;
  WorkspacePlan plan;
  Plan parts{};
  parts.states = plan.book(z.batch * z.heads * chunks * state_bytes);
  parts.dstates = plan.book(z.batch * z.heads * chunks * state_bytes);
  parts.da = plan.book(z.batch * chunks * z.heads * static_cast<int64_t>(sizeof(float)));
  parts.bytes = plan.bytes();
  return parts;
}

int64_t SsdGradMma::workspace_bytes(const SsdGradNode& node) { return plan_of(node.forward.sizes).bytes; }

SsdGradMma::SsdGradMma(const SsdGradNode& node, Toolbox& toolbox)
    : node_(node),
      plan_(plan_of(node.forward.sizes)),
      walk_heads_(ssd_block_heads(node.forward.sizes)),
      states_(toolbox.function("ssd_grad_mma", "ssd_states_" + std::to_string(walk_heads_))),
      chunks_(toolbox.function("ssd_grad_mma", "ssd_chunks")),
      rate_sum_(toolbox.function("ssd_plain", "ssd_rate_sum")) {}

void SsdGradMma::run(const Launch& l) const {
  const SsdSizes& z = node_.forward.sizes;
  const int64_t chunks = ssd_chunks_of(z);
  const auto part = [&](int64_t offset) { return l.workspace + static_cast<Address>(offset); };
  const SsdStatesParams states = {.forward = node_.forward.params(l, node_.dy.of(l.operands)),
                                  .states = part(plan_.states),
                                  .dstates = part(plan_.dstates)};
  launch(states_,
         ssd_mma_shape(kDirections * z.batch * z.heads / walk_heads_,
                       static_cast<uint32_t>(walk_heads_ * kSsdHeadWarps), ssd_states_shared_bytes(walk_heads_)),
         l.stream, states);
  launch(chunks_, ssd_mma_shape(z.batch * chunks * z.groups, kSsdChunkWarps, kSsdChunksSharedBytes), l.stream,
         SsdChunksParams{.states = states,
                         .dx = node_.dx.of(l.results),
                         .ddt = node_.ddt.of(l.results),
                         .db = node_.db.of(l.results),
                         .dc = node_.dc.of(l.results),
                         .da = part(plan_.da)});
  constexpr uint32_t kWarps = 8;  // each sums for one head
  launch(rate_sum_, ssd_mma_shape(ceil_div(z.heads, kWarps), kWarps, 0), l.stream,
         SsdRateSumParams{
             .of_parts = part(plan_.da), .da = node_.da.of(l.results), .parts = z.batch * chunks, .heads = z.heads});
}

}  // namespace megacpp::runtime::cuda
