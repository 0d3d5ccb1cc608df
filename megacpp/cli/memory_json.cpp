// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/memory_json.h"

#include <nlohmann/json.hpp>

#include "megacpp/cli/chip_memory.h"
#include "megacpp/core/base/record_to_json.h"

namespace megacpp::cli {

Json host_json(const fit::FitReport& fit) {
  return {{"checkpoint_snapshot_bytes", fit.snapshot},
          {"offloaded_bytes", fit.host_offloaded},
          {"needed_bytes", fit.host_needed()},
          {"free_bytes", base::record_json(fit.host_limit)}};
}

}  // namespace megacpp::cli
