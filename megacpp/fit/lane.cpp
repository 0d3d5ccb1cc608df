// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/lane.h"

namespace megacpp::fit {

std::string lane_name(const hw::Slice& slice, const std::string& backend) {
  const hw::ChipKind kind = slice.chip.kind;
  const bool is_xla = backend == "xla" || kind == hw::ChipKind::tpu;
  return (is_xla ? "xla" : kind == hw::ChipKind::gpu ? "cuda" : "cpu") + (" " + slice.chip.name);
}

}  // namespace megacpp::fit
