// SPDX-License-Identifier: Apache-2.0
// What --json prints. Files that make such objects include <nlohmann/json.hpp> by themselves: it is a large header.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "megacpp/base/json_text.h"

namespace megacpp::cli {

using Json = nlohmann::ordered_json;

/// A value of our own kind, as printed.
Json from_base(const base::Json& json);

/// One object on stdout.
void print_json(const Json& object);

}  // namespace megacpp::cli
