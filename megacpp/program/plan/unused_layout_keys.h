// SPDX-License-Identifier: Apache-2.0
// Keys of a layout that its own degrees leave without effect, on every backend.
#pragma once

#include <vector>

#include "megacpp/program/recipe/ignored_keys.h"

namespace megacpp::plan {

/// For a recipe that passes the gates: what these refuse is not here.
const std::vector<recipe::IgnoredKey>& unused_layout_keys();

}  // namespace megacpp::plan
