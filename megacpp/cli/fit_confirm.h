// SPDX-License-Identifier: Apache-2.0
// What the hardware itself says of the best layouts of a search, before anybody starts one: this machine runs them for
// a few steps, the compiler of a TPU slice compiles them ahead of time. Each answer is a row, whatever it is, and the
// catalog is told, so that later searches know it.
#pragma once

#include <cstdint>
#include <string>

#include "megacpp/cli/fit_report.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {

struct ConfirmRequest {
  int64_t layouts = 0;     // so many of the fastest that fit or are close
  std::string recipe;      // its file, for commands to copy
  int64_t time_limit = 0;  // seconds that a compiler may take for each
};

/// Fills `answer.confirmed`, or `answer.no_confirmation` where the hardware cannot be asked from here: why, and what
/// to do instead.
void confirm(const ConfirmRequest& request, const fit::Assumptions& assumptions, launch::UsersCatalog& catalog,
             FitAnswer& answer);

}  // namespace megacpp::cli
