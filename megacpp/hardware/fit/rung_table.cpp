// SPDX-License-Identifier: Apache-2.0
// The table of rungs, and nothing else: a test may be built with a list of its own.
#include "megacpp/hardware/fit/rungs.h"

#ifndef MEGACPP_RUNG_LIST
#define MEGACPP_RUNG_LIST "megacpp/program/recipe/rung_list.inc"
#endif

namespace megacpp::fit {

#define MEGACPP_RUNG(name) Rung name##_rung();
#include MEGACPP_RUNG_LIST
#undef MEGACPP_RUNG

std::span<const Rung> all_rungs() {
  static const std::vector<Rung> table = {
#define MEGACPP_RUNG(name) name##_rung(),
#include MEGACPP_RUNG_LIST
#undef MEGACPP_RUNG
  };
  return table;
}

}  // namespace megacpp::fit
