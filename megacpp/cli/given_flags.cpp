// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/given_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

namespace megacpp::cli {

launch::GivenFlags given_flags(const CLI::App& app) {
  launch::GivenFlags given;
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) given[option->get_name()] = fmt::format("{}", fmt::join(option->results(), "\n"));
  return given;
}

}  // namespace megacpp::cli
