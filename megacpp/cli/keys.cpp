// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <CLI/CLI.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/recipe/schema.h"

namespace megacpp::cli {

Command keys_command() {
  return {.name = "keys",
          .summary = "list every recipe key: type, default, range, meaning",
          .example = "megacpp keys",
          .declare = [](CLI::App&) -> std::function<int()> {
            return [] {
              std::fputs(recipe::key_table().c_str(), stdout);
              return 0;
            };
          }};
}

}  // namespace megacpp::cli
