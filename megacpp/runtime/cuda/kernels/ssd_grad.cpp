// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ssd_node.h"
#include "megacpp/runtime/cuda/kernels/workspace_plan.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr uint32_t kSumThreads = 256;
constexpr int64_t kFloatBytes = sizeof(float);

LaunchShape ssd_shape(int64_t items, int64_t per_block, uint32_t threads) {
  return {.grid = {static_cast<uint32_t>(ceil_div(items, per_block)), 1, 1}, .block = {threads, 1, 1}};
}

// Parts of the workspace, in bytes from its start.
struct PlainPlan {
  int64_t states, dstates, db, dc, da, bytes;
};

PlainPlan plan_plain(const SsdSizes& z) {
  const int64_t heads = z.batch * z.heads, state = z.head_dim * z.state;
  WorkspacePlan plan;
  PlainPlan parts{};
  parts.states = plan.book(heads * ceil_div(z.seq, kSsdSpan) * state * kFloatBytes);
  parts.dstates = plan.book(heads * state * kFloatBytes);
  parts.db = plan.book(heads * z.seq * z.state * kFloatBytes);
  parts.dc = plan.book(heads * z.seq * z.state * kFloatBytes);
  parts.da = plan.book(heads * kFloatBytes);
  parts.bytes = plan.bytes();
  return parts;
}

// The sums of one warp of ssd_gradient_R: see SpanSums.
int64_t span_sum_bytes(int64_t lane_elements) {
  return (2 * kSsdSpan * lane_elements * 32 + 2 * kSsdSpan) * kFloatBytes;
}

// The results of a node.
struct Gradients {
  Floats dx, ddt, da, db, dc;
};

Gradients gradients_of(const ops::NodeView& view) {
  const auto result = [&](size_t i) { return floats_at(view.results, i); };
  return {.dx = result(0), .ddt = result(1), .da = result(2), .db = result(3), .dc = result(4)};
}

class PlainRun {
 public:
  PlainRun(const ops::NodeView& view, Toolbox& toolbox)
      : node_(ssd_node(view)),
        out_(gradients_of(view)),
        dy_(floats_at(view.operands, SsdNode::kDy)),
        plan_(plan_plain(node_.sizes)),
        driver_(&toolbox.driver()),
        keep_states_(function(toolbox, "ssd_keep_states_" + lanes())),
        gradient_(function(toolbox, "ssd_gradient_" + lanes())),
        group_sum_(function(toolbox, "ssd_group_sum")),
        rate_sum_(function(toolbox, "ssd_rate_sum")) {}

  void run(const Launch& l) const {
    const SsdSizes& z = node_.sizes;
    const int64_t heads = node_.is_empty() ? 0 : z.batch * z.heads;
    if (heads > 0) walk(l, heads);
    sum_groups(l, plan_.db, out_.db);
    sum_groups(l, plan_.dc, out_.dc);
    launch(rate_sum_, ssd_shape(z.heads, kSumThreads, kSumThreads), l.stream,
           SsdRateSumParams{.of_parts = at(l, plan_.da),
                            .da = out_.da.of(l.results),
                            .parts = heads == 0 ? 0 : z.batch,
                            .heads = z.heads});
  }

 private:
  static Function function(Toolbox& toolbox, const std::string& name) { return toolbox.function("ssd_plain", name); }
  static Address at(const Launch& l, int64_t offset) { return l.workspace + static_cast<Address>(offset); }
  std::string lanes() const { return std::to_string(ssd_lane_elements(node_.sizes)); }

  void walk(const Launch& l, int64_t heads) const {
    const SsdSizes& z = node_.sizes;
    const SsdGradParams params = {.forward = node_.params(l, dy_.of(l.operands)),
                                  .dx = out_.dx.of(l.results),
                                  .ddt = out_.ddt.of(l.results),
                                  .states = at(l, plan_.states),
                                  .dstates = at(l, plan_.dstates),
                                  .db = at(l, plan_.db),
                                  .dc = at(l, plan_.dc),
                                  .da = at(l, plan_.da)};
    const size_t dstate_bytes = static_cast<size_t>(heads * z.head_dim * z.state * kFloatBytes);
    driver_->memset_bytes_async(params.dstates, 0, dstate_bytes, l.stream);
    launch(keep_states_, ssd_shape(heads * z.head_dim, kSsdWarps, kSsdWarps * 32), l.stream, params);
    LaunchShape shape = ssd_shape(heads, 1, kSsdGradWarps * 32);
    shape.shared_bytes = static_cast<uint32_t>(kSsdGradWarps * span_sum_bytes(ssd_lane_elements(z)));
    launch(gradient_, shape, l.stream, params);
  }

  void sum_groups(const Launch& l, int64_t offset, const Floats& sums) const {
    const SsdSizes& z = node_.sizes;
    const int64_t heads = node_.is_empty() ? 0 : z.heads;  // that were written
    launch(group_sum_, ssd_shape(node_.rows() * z.groups * z.state, kSumThreads, kSumThreads), l.stream,
           SsdGroupSumParams{.of_heads = at(l, offset),
                             .sums = sums.of(l.results),
                             .rows = node_.rows(),
                             .heads = heads,
                             .groups = z.groups,
                             .state = z.state});
  }

  SsdNode node_;
  Gradients out_;
  Floats dy_;
  PlainPlan plan_;
  const Driver* driver_;
  Function keep_states_, gradient_, group_sum_, rate_sum_;
};

int64_t ssd_grad_workspace(const ops::NodeView& view) { return plan_plain(ssd_node(view).sizes).bytes; }

Prepared prepare_ssd_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const PlainRun run(view, toolbox);
  return {[run](const Launch& l) { run.run(l); }};
}

}  // namespace

Kernel ssd_grad_kernel() {
  return {
      .op = "ssd_grad", .workspace_bytes = ssd_grad_workspace, .supports = supports_ssd, .prepare = prepare_ssd_grad};
}

}  // namespace megacpp::runtime::cuda
