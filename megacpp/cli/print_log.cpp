// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/print_log.h"

#include "megacpp/cli/output.h"

namespace megacpp::cli {

void print_line(const launch::Line& line) { print_err("{:<10} {}\n", line.topic, line.text); }

}  // namespace megacpp::cli
