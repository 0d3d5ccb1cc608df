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

/// A word below a command: `megacpp plugins list`.
struct Word {
  std::string name;
  std::string summary;   // one line
  std::string examples;  // printed under the word's help, one a line
  std::function<std::function<int()>(CLI::App& app)> declare;
};
/// Declares the words of a command that wants exactly one of them; what it returns runs the one that was given. With
/// `no_word` the command may also stand alone, and then runs that.
std::function<int()> declare_words(CLI::App& app, const std::vector<Word>& words, std::function<int()> no_word = {});

const std::vector<Command>& all_commands();

/// Runs one command line; errors are printed to stderr and become the exit status.
int run(int argc, const char* const* argv);

}  // namespace megacpp::cli
