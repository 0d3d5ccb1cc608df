// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/lineage.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"

namespace megacpp::lineage {
const std::string* find_value(const Facts& facts, std::string_view name) {
  const auto at = std::ranges::find(facts, name, &Fact::name);
  return at == facts.end() ? nullptr : &at->value;
}

base::Json to_json(const Lineage& lineage) { return base::record_json(lineage); }

Lineage lineage_of(const base::Json& json) {
  Lineage lineage;
  base::read_record(json, lineage, "", {});
  return lineage;
}

std::string to_text(const Drift& drift) {
  return fmt::format("{} {}, documented {}: {}", drift.name, drift.live, drift.documented, drift.fix);
}

}  // namespace megacpp::lineage
