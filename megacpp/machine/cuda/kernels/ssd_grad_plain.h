// SPDX-License-Identifier: Apache-2.0
// ssd_grad position by position, by ssd_plain.cu.
#pragma once

#include <string>

#include "megacpp/machine/cuda/kernels/ssd_node.h"

namespace megacpp::runtime::cuda {

class SsdGradPlain {
 public:
  static int64_t workspace_bytes(const SsdGradNode& node);

  SsdGradPlain(const SsdGradNode& node, Toolbox& toolbox);
  void run(const Launch& launch) const;

 private:
  // Parts of the workspace, in bytes from its start.
  struct Plan {
    int64_t states, dstates, db, dc, da, bytes;
  };
  static Plan plan_of(const SsdSizes& sizes);

  void walk(const Launch& l) const;
  void sum_groups(const Launch& l, int64_t offset, const Floats& sums) const;

  SsdGradNode node_;
  Plan plan_;
  const Driver* driver_;
  Function keep_states_, gradient_, group_sum_, rate_sum_;
};

}  // namespace megacpp::runtime::cuda
