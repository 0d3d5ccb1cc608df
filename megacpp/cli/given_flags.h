// SPDX-License-Identifier: Apache-2.0
// The flags of a command as they were given, for processes that compare them.
#pragma once

#include "megacpp/run/launch/run_inputs.h"

namespace CLI {
class App;
}

namespace megacpp::cli {

/// Of a command that was parsed: each flag with its values, one a line.
launch::GivenFlags given_flags(const CLI::App& app);

}  // namespace megacpp::cli
