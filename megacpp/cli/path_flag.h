// SPDX-License-Identifier: Apache-2.0
// Flags that take a path. An empty one, as a variable that is not set leaves it, is refused and not taken for a flag
// that is absent.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace megacpp::cli {

/// `path` stays as it is without the flag. E1008 for an empty path to read, E3001 for one to write.
CLI::Option* declare_read_path(CLI::App& app, const std::string& flag, std::string& path, const std::string& help);
CLI::Option* declare_written_path(CLI::App& app, const std::string& flag, std::string& path, const std::string& help);

}  // namespace megacpp::cli
