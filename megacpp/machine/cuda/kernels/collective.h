// SPDX-License-Identifier: Apache-2.0
// The collective kernel of one GPU: launches the tables of movement_table.h.
#pragma once

#include "megacpp/machine/cuda/function.h"
#include "megacpp/machine/cuda/kernels/collective_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

class CollectiveKernel {
 public:
  /// E1505 where this build has no device code.
  explicit CollectiveKernel(Toolbox& toolbox);

  /// Only enqueues; from any thread on which the context is current.
  void run(const CollectiveParams& table, Stream* stream) const;

 private:
  Function copy_;
  Function combine_;
};

}  // namespace megacpp::runtime::cuda
