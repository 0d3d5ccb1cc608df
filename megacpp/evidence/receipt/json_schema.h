// SPDX-License-Identifier: Apache-2.0
// The JSON Schema (draft 2020-12) of receipts, made of the same list of members that writes and reads them. It is
// published as docs/receipt.schema.json; a test holds the file to this.
#pragma once

#include <string>

namespace megacpp::receipt {

std::string json_schema();

}  // namespace megacpp::receipt
