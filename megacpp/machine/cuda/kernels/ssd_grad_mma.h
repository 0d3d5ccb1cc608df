// SPDX-License-Identifier: Apache-2.0
// ssd_grad by tensor cores, by ssd_grad_mma.cu.
#pragma once

#include "megacpp/machine/cuda/kernels/ssd_node.h"

namespace megacpp::runtime::cuda {

class SsdGradMma {
 public:
  static int64_t workspace_bytes(const SsdGradNode& node);

  SsdGradMma(const SsdGradNode& node, Toolbox& toolbox);
  void run(const Launch& launch) const;

 private:
  // Parts of the workspace, in bytes from its start.
  struct Plan {
    int64_t states, dstates, da, bytes;
  };
  static Plan plan_of(const SsdSizes& sizes);

  SsdGradNode node_;
  Plan plan_;
  int walk_heads_;
  Function states_, chunks_, rate_sum_;
};

}  // namespace megacpp::runtime::cuda
