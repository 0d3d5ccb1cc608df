// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/load_options.h"

#include "megacpp/machine/collectives/placement.h"

namespace megacpp::runtime {

collectives::WorldOptions world_of_run(const ir::Mesh& mesh, const LoadOptions& options) {
  return {.chips = mesh.chips(),
          .wait_limit = options.wait_limit,
          .order = collectives::dealing_order(mesh),
          .agreement_limit = collectives::start_limit(options.wait_limit),
          .answer_limit = options.wait_limit,
          .join_limit = options.wait_limit};
}

}  // namespace megacpp::runtime
