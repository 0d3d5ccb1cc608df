// SPDX-License-Identifier: Apache-2.0
// The links under the axes of a mesh for programs, as plans and searches print them.
#pragma once

#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/fit/islands.h"

namespace megacpp::cli {

Json to_json(const std::vector<fit::AxisIsland>& islands);
Json to_json(const std::vector<fit::Crossing>& crossings);

}  // namespace megacpp::cli
