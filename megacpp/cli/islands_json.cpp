// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/islands_json.h"

#include <nlohmann/json.hpp>

namespace megacpp::cli {

Json to_json(const std::vector<fit::AxisIsland>& islands) {
  Json json = Json::array();
  for (const fit::AxisIsland& island : islands)
    json.push_back(Json{{"axis", island.axis},
                        {"chips", island.size},
                        {"link", island.link.name},
                        {"bytes_per_second", island.link.ring.bytes_per_second},
                        {"domains", island.domains},
                        {"where", island.where}});
  return json;
}

Json to_json(const std::vector<fit::Crossing>& crossings) {
  Json json = Json::array();
  for (const fit::Crossing& crossing : crossings)
    json.push_back(Json{{"axis", crossing.island.axis},
                        {"key", crossing.key},
                        {"link", crossing.island.link.name},
                        {"seconds", crossing.seconds},
                        {"inside_link", crossing.inside_link},
                        {"inside_seconds", crossing.inside_seconds},
                        {"nearest", crossing.nearest ? Json(plan::overrides_of(*crossing.nearest)) : Json()},
                        {"warning", fit::to_text(crossing)}});
  return json;
}

}  // namespace megacpp::cli
