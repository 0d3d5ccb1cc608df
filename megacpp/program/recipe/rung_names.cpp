// SPDX-License-Identifier: Apache-2.0
// The names of rungs, and nothing else: a test may be built with a list of its own.
#include "megacpp/program/recipe/rung_names.h"

#ifndef MEGACPP_RUNG_LIST
#define MEGACPP_RUNG_LIST "megacpp/program/recipe/rung_list.inc"
#endif

namespace megacpp::recipe {

const std::vector<std::string>& rung_names() {
  static const std::vector<std::string> names = {
#define MEGACPP_RUNG(name) #name,
#include MEGACPP_RUNG_LIST
#undef MEGACPP_RUNG
  };
  return names;
}

}  // namespace megacpp::recipe
