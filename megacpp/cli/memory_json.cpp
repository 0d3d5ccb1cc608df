// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/memory_json.h"

#include <nlohmann/json.hpp>

#include "megacpp/cli/chip_memory.h"

namespace megacpp::cli {

Json memory_items_json(const memory::MemoryPlan& plan) {
  Json rows = Json::array();
  for (const memory::Item& item : plan.items)
    rows.push_back(Json{{"role", std::string(ir::role_name(item.role))},
                        {"letter", item.letter},
                        {"block", item.block},
                        {"bytes", item.bytes}});
  return rows;
}

Json largest_json(const memory::MemoryPlan& plan) {
  Json rows = Json::array();
  for (const memory::Allocation& piece : plan.largest)
    rows.push_back(Json{{"what", piece.what},
                        {"scope", piece.scope},
                        {"role", std::string(ir::role_name(piece.role))},
                        {"bytes", piece.bytes}});
  return rows;
}

Json host_json(const fit::FitReport& fit) {
  return {{"checkpoint_snapshot_bytes", fit.snapshot},
          {"offloaded_bytes", fit.host_offloaded},
          {"needed_bytes", fit.host_needed()},
          {"free_bytes", bytes_or_null(fit.host_limit)}};
}

}  // namespace megacpp::cli
