// SPDX-License-Identifier: Apache-2.0
// The rungs that a recipe can name. Their records are in fit/, which recipes do not depend on.
#pragma once

#include <string>
#include <vector>

namespace megacpp::recipe {

/// In the order of rung_list.inc.
const std::vector<std::string>& rung_names();

}  // namespace megacpp::recipe
