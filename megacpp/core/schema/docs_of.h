// SPDX-License-Identifier: Apache-2.0
// The documentation of a key whose choices are the names of records.
#pragma once

#include <string>

namespace megacpp::schema {

/// "cpu: our own kernels; xla: ..." of records with a `name` and a `doc`, in their order.
template <typename Records>
std::string docs_of(const Records& records) {
  std::string text;
  for (const auto& record : records)
    text += (text.empty() ? "" : "; ") + std::string(record.name) + ": " + std::string(record.doc);
  return text;
}

}  // namespace megacpp::schema
