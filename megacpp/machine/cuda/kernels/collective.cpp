// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/collective.h"

#include "megacpp/machine/cuda/movement_table.h"

namespace megacpp::runtime::cuda {

CollectiveKernel::CollectiveKernel(Toolbox& toolbox)
    : copy_(toolbox.function("collective", "collective_copy")),
      combine_(toolbox.function("collective", "collective_combine")) {}

void CollectiveKernel::run(const CollectiveParams& table, Stream* stream) const {
  const LaunchShape shape{.grid = {blocks_of(table), 1, 1}, .block = {kCollectiveThreads, 1, 1}};
  launch(table.combine == Combine::copy ? copy_ : combine_, shape, stream, table);
}

}  // namespace megacpp::runtime::cuda
