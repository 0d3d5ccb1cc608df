// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/lane.h"

namespace megacpp::plan {

GatherUnit apply_lane(recipe::Layout& layout) {
  const bool is_fsdp = layout.lane == "fsdp";
  if (layout.zero == recipe::Layout::kLaneDecides) layout.zero = is_fsdp ? 3 : 1;
  if (is_fsdp) return GatherUnit::block;
  return layout.lane == "megatron" ? GatherUnit::bucket : GatherUnit::parameter;
}

}  // namespace megacpp::plan
