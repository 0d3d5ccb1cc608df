// SPDX-License-Identifier: Apache-2.0
// Flags and arguments that take a number, read as recipes read theirs: the whole text is one number in decimal, which
// its type holds exactly and which lies in the flag's range. E1007 for anything else: nothing is cut off, wrapped or
// taken for 0.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "megacpp/core/schema/range.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace megacpp::cli {

struct NumberFlag {
  std::string name = {};  // "--seed", "ID"
  schema::Range range = {};
  std::string help = {};
};

/// The type that help shows of such flags begins with one of these.
inline constexpr const char* kWholeNumber = "INT";
inline constexpr const char* kNumber = "NUMBER";

/// `number` stays as it is without the flag.
CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, int64_t& number);
CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, double& number);
/// A whole number that `take` is given.
CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, std::function<void(int64_t)> take);

}  // namespace megacpp::cli
