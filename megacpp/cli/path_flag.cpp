// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/path_flag.h"

#include <CLI/CLI.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::cli {
namespace {

/// A flag whose path must not be empty, with the code where it is.
struct PathFlag {
  std::string name;
  std::string& path;
  base::Code empty;
};

CLI::Option* declare_path(CLI::App& app, const PathFlag& flag, const std::string& help) {
  return app.add_option_function<std::string>(
      flag.name,
      [name = flag.name, &path = flag.path, code = flag.empty](const std::string& given) {
        if (given.empty())
          base::raise(code, {.where = name,
                             .got = "an empty path",
                             .wanted = "a path",
                             .next = "give a path, or leave the flag out"});
        path = given;
      },
      help);
}

}  // namespace

CLI::Option* declare_read_path(CLI::App& app, const std::string& flag, std::string& path, const std::string& help) {
  return declare_path(app, {flag, path, base::Code::E1008}, help);
}

CLI::Option* declare_written_path(CLI::App& app, const std::string& flag, std::string& path, const std::string& help) {
  return declare_path(app, {flag, path, base::Code::E3001}, help);
}

}  // namespace megacpp::cli
