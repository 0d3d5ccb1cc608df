// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/backend_names.h"

namespace megacpp::recipe {

const std::vector<BackendName>& backend_names() {
  static const std::vector<BackendName> names = {
#define MEGACPP_BACKEND(name, doc) {#name, doc},
#include "megacpp/recipe/backend_list.inc"
#undef MEGACPP_BACKEND
  };
  return names;
}

std::string backend_docs() {
  std::string text;
  for (const BackendName& one : backend_names())
    text += (text.empty() ? "" : "; ") + std::string(one.name) + ": " + std::string(one.doc);
  return text;
}

}  // namespace megacpp::recipe
