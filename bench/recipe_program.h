// SPDX-License-Identifier: Apache-2.0
// What programs that measure a recipe have in common: its path is their only argument, and an error ends them in words.
#pragma once

#include <exception>
#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace megacpp::bench {

struct RecipeProgram {
  const char* default_recipe;             // from the root of the repository
  int (*run)(const std::string& recipe);  // gives the exit status
};

/// For main(): the exit status, 1 after an error.
inline int run_program(int count, char** arguments, const RecipeProgram& program) {
  try {
    return program.run(count > 1 ? arguments[1] : program.default_recipe);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", std::filesystem::path(arguments[0]).filename().string(), error.what());
    return 1;
  }
}

}  // namespace megacpp::bench
