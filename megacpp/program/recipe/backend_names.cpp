// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/backend_names.h"

namespace megacpp::recipe {

const std::vector<BackendName>& backend_names() {
  static const std::vector<BackendName> names = {
#define MEGACPP_BACKEND(name, doc) {#name, doc},
#include "megacpp/program/recipe/backend_list.inc"
#undef MEGACPP_BACKEND
  };
  return names;
}

}  // namespace megacpp::recipe
