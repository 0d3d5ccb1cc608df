// SPDX-License-Identifier: Apache-2.0
// Lines of a launch as commands print them.
#pragma once

#include "megacpp/run/launch/log.h"

namespace megacpp::cli {

/// "ladder     rung 1 batch ..." to stderr.
void print_line(const launch::Line& line);

}  // namespace megacpp::cli
