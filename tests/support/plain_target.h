// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "megacpp/program/schedule/target.h"

namespace megacpp::testing_support {

/// Runs everything, needs no workspace: the compiler without a backend.
inline schedule::Target plain_target() {
  return {.name = "plain",
          .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }};
}

inline schedule::Target target_with_epilogues() {
  schedule::Target target = plain_target();
  target.has_epilogues = true;
  return target;
}

}  // namespace megacpp::testing_support
