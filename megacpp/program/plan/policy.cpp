// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/policy.h"

namespace megacpp::plan {

using recipe::Policy;

GatherUnit gather_unit(Policy policy) {
  if (policy == Policy::fsdp) return GatherUnit::block;
  return policy == Policy::megatron ? GatherUnit::bucket : GatherUnit::parameter;
}

int64_t zero_level(const recipe::Layout& layout) {
  if (!layout.zero.is_open()) return layout.zero.given;
  return layout.policy == Policy::fsdp ? 3 : 1;
}

}  // namespace megacpp::plan
