// SPDX-License-Identifier: Apache-2.0
// The lane a launch runs on: hardware, backend, who places the collectives, and on GPUs whether XLA has blocks in
// loops. The catalog corrects the predictions of one lane alike, and those of another by nothing that was measured on
// it.
#pragma once

#include <string>

namespace megacpp::fit {

struct Lane {
  std::string backend;     // the one that runs there, which need not be the recipe's
  std::string hardware;    // a chip's name
  std::string placement;   // who places the collectives; empty: the backend knows one way only
  std::string loops = {};  // of XLA on GPUs: "on" or "off", as it is resolved; empty elsewhere

  bool operator==(const Lane&) const = default;
};

/// "cpu host", "xla v6e placement=megacpp", "xla h200 placement=megacpp loops=off"
std::string to_text(const Lane& lane);

}  // namespace megacpp::fit
