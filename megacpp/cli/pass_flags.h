// SPDX-License-Identifier: Apache-2.0
// The flag that switches passes of the compiler off, and the list of passes for a command's help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace megacpp::cli {

/// `--without PASS`, repeatable. Names are checked by the compiler, which knows what a run has a use for.
void declare_without(CLI::App& app, std::vector<std::string>& without);

/// A line for each pass, from the table that runs; optional ones are marked.
std::string passes_help();

}  // namespace megacpp::cli
