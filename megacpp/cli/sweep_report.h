// SPDX-License-Identifier: Apache-2.0
// What a sweep found, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/evidence/sweep/sweep.h"
#include "megacpp/evidence/sweep/sweep_result.h"

namespace megacpp::cli {

/// A table of all values, and their rates as bars.
std::string sweep_text(const sweep::Sweep& sweep, const std::vector<sweep::ValueResult>& results);
/// The rates as a picture that is a file of its own.
std::string sweep_svg(const sweep::Sweep& sweep, const std::vector<sweep::ValueResult>& results);
Json sweep_json(const sweep::Sweep& sweep, const std::vector<sweep::ValueResult>& results);

}  // namespace megacpp::cli
