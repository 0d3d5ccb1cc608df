// SPDX-License-Identifier: Apache-2.0
// The collectives XLA's program runs in a step beside those of ours, by kind and axes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/xla/pjrt/xla_collectives.h"
#include "megacpp/program/compile/collective_report.h"

namespace megacpp::cli {

struct CollectiveCount {
  int64_t calls = 0;  // per step
  int64_t bytes = 0;  // that a chip sends in a step
};

struct CollectiveComparison {
  std::string kind;
  std::string axes;  // in the order of the mesh
  CollectiveCount xla;
  CollectiveCount ours;
  bool xla_at_least = false;  // some of XLA's stand in a loop whose length is a guess

  /// What differs, in a few words; empty: nothing. XLA joins collectives, so fewer calls alone may be the same data.
  std::string difference() const;
};

/// By kind, then axes. `ours` counts forward and backward per micro-step.
std::vector<CollectiveComparison> compare_collectives(const std::vector<runtime::pjrt::XlaCollective>& xla,
                                                      const std::vector<compile::CollectiveRow>& ours,
                                                      int64_t micro_steps, const ir::Mesh& mesh);

}  // namespace megacpp::cli
