// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/ssd_grad_plain.h"

#include "megacpp/machine/cuda/kernels/workspace_plan.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr uint32_t kSumThreads = 256;
constexpr int64_t kFloatBytes = sizeof(float);

LaunchShape ssd_plain_shape(int64_t items, int64_t per_block, uint32_t threads) {
  return {.grid = {static_cast<uint32_t>(ceil_div(items, per_block)), 1, 1}, .block = {threads, 1, 1}};
}

// The sums of one warp of ssd_gradient_R: see SpanSums.
int64_t span_sum_bytes(int64_t lane_elements) {
  return (2 * kSsdSpan * lane_elements * 32 + 2 * kSsdSpan) * kFloatBytes;
}

Function plain_function(Toolbox& toolbox, const std::string& name, const SsdGradNode& node) {
  return toolbox.function("ssd_plain", name + std::to_string(ssd_lane_elements(node.forward.sizes)));
}

Address part_at(const Launch& l, int64_t offset) { return l.workspace + static_cast<Address>(offset); }

}  // namespace

SsdGradPlain::Plan SsdGradPlain::plan_of(const SsdSizes& z) {
  const int64_t heads = z.batch * z.heads, state = z.head_dim * z.state;
  WorkspacePlan plan;
  Plan parts{};
  parts.states = plan.book(heads * ceil_div(z.seq, kSsdSpan) * state * kFloatBytes);
  parts.dstates = plan.book(heads * state * kFloatBytes);
  parts.db = plan.book(heads * z.seq * z.state * kFloatBytes);
  parts.dc = plan.book(heads * z.seq * z.state * kFloatBytes);
  parts.da = plan.book(heads * kFloatBytes);
  parts.bytes = plan.bytes();
  return parts;
}

int64_t SsdGradPlain::workspace_bytes(const SsdGradNode& node) { return plan_of(node.forward.sizes).bytes; }

SsdGradPlain::SsdGradPlain(const SsdGradNode& node, Toolbox& toolbox)
    : node_(node),
      plan_(plan_of(node.forward.sizes)),
      driver_(&toolbox.driver()),
      keep_states_(plain_function(toolbox, "ssd_keep_states_", node)),
      gradient_(plain_function(toolbox, "ssd_gradient_", node)),
      group_sum_(toolbox.function("ssd_plain", "ssd_group_sum")),
      rate_sum_(toolbox.function("ssd_plain", "ssd_rate_sum")) {}

void SsdGradPlain::run(const Launch& l) const {
  const SsdSizes& z = node_.forward.sizes;
  const bool is_empty = node_.forward.is_empty();
  if (!is_empty) walk(l);
  sum_groups(l, plan_.db, node_.db);
  sum_groups(l, plan_.dc, node_.dc);
  launch(rate_sum_, ssd_plain_shape(z.heads * 32, kSumThreads, kSumThreads), l.stream,
         SsdRateSumParams{.of_parts = part_at(l, plan_.da),
                          .da = node_.da.of(l.results),
                          .parts = is_empty ? 0 : z.batch,
                          .heads = z.heads});
}

void SsdGradPlain::walk(const Launch& l) const {
  const SsdSizes& z = node_.forward.sizes;
  const int64_t heads = z.batch * z.heads;
  const SsdGradParams params = {.forward = node_.forward.params(l, node_.dy.of(l.operands)),
                                .dx = node_.dx.of(l.results),
                                .ddt = node_.ddt.of(l.results),
                                .states = part_at(l, plan_.states),
                                .dstates = part_at(l, plan_.dstates),
                                .db = part_at(l, plan_.db),
                                .dc = part_at(l, plan_.dc),
                                .da = part_at(l, plan_.da)};
  const size_t dstate_bytes = static_cast<size_t>(heads * z.head_dim * z.state * kFloatBytes);
  driver_->memset_bytes_async(params.dstates, 0, dstate_bytes, l.stream);
  launch(keep_states_, ssd_plain_shape(heads * z.head_dim, kSsdWarps, kSsdWarps * 32), l.stream, params);
  LaunchShape shape = ssd_plain_shape(heads, 1, kSsdGradWarps * 32);
  shape.shared_bytes = static_cast<uint32_t>(kSsdGradWarps * span_sum_bytes(ssd_lane_elements(z)));
  launch(gradient_, shape, l.stream, params);
}

void SsdGradPlain::sum_groups(const Launch& l, int64_t offset, const Floats& sums) const {
  const SsdSizes& z = node_.forward.sizes;
  const int64_t rows = node_.forward.rows();
  launch(group_sum_, ssd_plain_shape(rows * z.groups * z.state, kSumThreads, kSumThreads), l.stream,
         SsdGroupSumParams{.of_heads = part_at(l, offset),
                           .sums = sums.of(l.results),
                           .rows = rows,
                           .heads = node_.forward.is_empty() ? 0 : z.heads,  // that were written
                           .groups = z.groups,
                           .state = z.state});
}

}  // namespace megacpp::runtime::cuda
