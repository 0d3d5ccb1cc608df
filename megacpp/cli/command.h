// SPDX-License-Identifier: Apache-2.0
// A command: flags, help with an example, a call into the library. To add one: cli/<command>.cpp with a Command, one
// line in commands.inc. Data goes to stdout, talk to stderr; a command returns its exit status or throws base::Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;  // every command includes CLI11 by itself: it is a large header
}

namespace megacpp::cli {

struct Command {
  std::string name;
  std::string summary;  // one line
  std::string example;  // printed under the command's help
  /// Declares flags on `app` and returns what to run once they are parsed.
  std::function<std::function<int()>(CLI::App& app)> declare;
};

/// Declares commands below another one, as `megacpp plugins list`, or below megacpp itself: exactly one of them is
/// wanted, and what is returned runs the one that was given. With `no_word` none need be, and then that runs.
std::function<int()> declare_words(CLI::App& app, const std::vector<Command>& words, std::function<int()> no_word = {});

const std::vector<Command>& all_commands();

/// Runs one command line; errors are printed to stderr and become the exit status.
int run(int argc, const char* const* argv);

}  // namespace megacpp::cli
