// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/print_log.h"

#include <cstdio>

#include <fmt/format.h>

namespace megacpp::cli {

void print_line(const launch::Line& line) { fmt::print(stderr, "{:<10} {}\n", line.topic, line.text); }

}  // namespace megacpp::cli
