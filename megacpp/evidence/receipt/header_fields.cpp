// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/header_fields.h"

#include "megacpp/core/base/record_to_json.h"
#include "megacpp/evidence/receipt/fields.h"

namespace megacpp::receipt {
namespace {

std::string value_text(const base::Json& value) {
  if (value.is_null()) return "";
  const std::string* const text = base::as_text(value);
  return text != nullptr ? *text : base::to_text(value);
}

}  // namespace

std::vector<HeaderField> header_fields(const Header& header) {
  std::vector<HeaderField> fields;
  const base::Json sections = base::record_json(header);
  for (const auto& [section, members] : sections.items())
    for (const auto& [name, value] : members.items())
      fields.push_back({.name = section + "." + name, .value = value_text(value)});
  return fields;
}

}  // namespace megacpp::receipt
