// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/policy.h"

namespace megacpp::plan {

GatherUnit apply_policy(recipe::Layout& layout) {
  const bool is_fsdp = layout.policy == "fsdp";
  if (layout.zero == recipe::Layout::kPolicyDecides) layout.zero = is_fsdp ? 3 : 1;
  if (is_fsdp) return GatherUnit::block;
  return layout.policy == "megatron" ? GatherUnit::bucket : GatherUnit::parameter;
}

}  // namespace megacpp::plan
