// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/pass_flags.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "megacpp/program/compile/compile.h"

namespace megacpp::cli {

void declare_without(CLI::App& app, std::vector<std::string>& without) {
  app.add_option("--without", without,
                 "switch an optional pass of the compiler off, for debugging; may be repeated; the passes: megacpp "
                 "compile --help")
      ->type_name("PASS")
      ->allow_extra_args(false);
}

std::string passes_help() {
  std::string text = "Passes, in order; those with a * can be switched off by --without:\n";
  for (const compile::PassInfo& pass : compile::list_passes())
    text += fmt::format("  {} {:<18} {}\n", pass.is_optional() ? '*' : ' ', pass.name, pass.does);
  return text;
}

}  // namespace megacpp::cli
