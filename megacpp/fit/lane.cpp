// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/lane.h"

namespace megacpp::fit {
namespace {

bool is_xla(const hw::Slice& slice, const std::string& backend) { return backend_on(slice, backend) == "xla"; }

}  // namespace

std::string backend_on(const hw::Slice& slice, const std::string& backend) {
  return slice.chip.kind == hw::ChipKind::tpu ? "xla" : backend;
}

std::string lane_name(const hw::Slice& slice, const std::string& backend) {
  const hw::ChipKind kind = slice.chip.kind;
  return (is_xla(slice, backend) ? "xla" : kind == hw::ChipKind::gpu ? "cuda" : "cpu") + (" " + slice.chip.name);
}

base::Decision runs_pipelines(const hw::Slice& slice, const std::string& backend) {
  if (!is_xla(slice, backend)) return base::Decision::yes();
  return base::Decision::no("the backend xla runs one program on all chips: no pipeline stages");
}

}  // namespace megacpp::fit
