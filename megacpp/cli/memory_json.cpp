// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/memory_json.h"

#include <nlohmann/json.hpp>

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

}  // namespace megacpp::cli
