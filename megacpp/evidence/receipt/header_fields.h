// SPDX-License-Identifier: Apache-2.0
// The header of a receipt as a list: what comparisons go through.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::receipt {

struct HeaderField {
  std::string name;   // "program.layout", as the receipt's JSON has it below "header"
  std::string value;  // as text; a member that is absent is empty

  bool operator==(const HeaderField&) const = default;
};

/// Every member of the header, in the order of fields.h: the same names for every receipt.
std::vector<HeaderField> header_fields(const Header& header);

}  // namespace megacpp::receipt
