// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/kernels/ssd_grad_plan.h"

#include "megacpp/machine/cpu/kernels/scratch.h"

namespace megacpp::runtime::cpu {
namespace {

void plan_worker(SsdGradPlan& plan) {
  const SsdShape& v = plan.shape;
  ScratchPlan s;
  static_cast<SsdWalkPlan&>(plan) = plan_ssd_walk(v, s);
  for (int64_t* square : {&plan.dmixing, &plan.dscores}) *square = s.book(v.length * v.length);
  for (int64_t* vector : {&plan.out, &plan.in, &plan.suffix, &plan.dlog_decay}) *vector = s.book(v.length);
  plan.dy_decayed = s.book(v.length * v.block_columns());
  plan.read = s.book(v.length * v.state);
  plan.states = s.book(v.chunks * v.state * v.block_columns());
  plan.dstate = s.book(v.state * v.block_columns());
  plan.per_worker = s.floats();
}

}  // namespace

SsdGradPlan plan_ssd_grad(const ops::NodeView& view, int threads) {
  SsdGradPlan plan{};
  plan.shape = ssd_shape(view, threads);
  plan_worker(plan);
  const SsdShape& v = plan.shape;
  const int64_t copies = v.head_blocks == 1 ? 0 : v.head_blocks * v.batch * v.seq * v.b_stride();
  ScratchPlan whole;
  plan.da = whole.book(v.batch * v.heads);
  plan.db = whole.book(copies);
  plan.dc = whole.book(copies);
  plan.workers = whole.book(plan.per_worker * threads);
  plan.workspace_bytes = whole.bytes();
  return plan;
}

}  // namespace megacpp::runtime::cpu
