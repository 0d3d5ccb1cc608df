// SPDX-License-Identifier: Apache-2.0
// What --json prints. Files that make such objects include <nlohmann/json.hpp> by themselves: it is a large header.
#pragma once

#include "megacpp/base/json.h"

namespace megacpp::cli {

using base::Json;

/// One object on stdout.
void print_json(const Json& object);

}  // namespace megacpp::cli
