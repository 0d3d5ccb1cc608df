// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/json_schema.h"

#include "megacpp/core/base/record_schema.h"
#include "megacpp/evidence/receipt/fields.h"

namespace megacpp::receipt {

std::string json_schema() {
  base::Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "MegaCpp receipt"}};
  schema.update(base::record_schema<Receipt>());
  schema["properties"]["schema"]["const"] = kSchemaVersion;
  schema["properties"]["checksum"] = {{"type", "string"},
                                      {"pattern", "^[0-9a-f]{16}$"},
                                      {"description", "XXH64 of the other members as compact JSON, in this order"}};
  schema["required"].push_back("checksum");
  return base::to_text(schema, 1) + "\n";
}

}  // namespace megacpp::receipt
