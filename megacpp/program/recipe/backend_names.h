// SPDX-License-Identifier: Apache-2.0
// The backends that a recipe can name. Their records are in runtime/, which recipes do not depend on.
#pragma once

#include <string_view>
#include <vector>

namespace megacpp::recipe {

struct BackendName {
  std::string_view name;
  std::string_view doc;
};

/// In the order of backend_list.inc.
const std::vector<BackendName>& backend_names();

}  // namespace megacpp::recipe
