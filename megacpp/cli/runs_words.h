// SPDX-License-Identifier: Apache-2.0
// Words of `megacpp runs` that have a file of their own, runs_<word>.cpp.
#pragma once

#include "megacpp/cli/command.h"

namespace megacpp::cli {

Command runs_export_word();

}  // namespace megacpp::cli
