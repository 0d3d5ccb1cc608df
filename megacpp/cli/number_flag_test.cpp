// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/number_flag.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/core/base/error.h"
#include "tests/support/command_line.h"

namespace megacpp::cli {
namespace {

constexpr const char* kTooLong = "99999999999999999999999";  // for 64 bits; a real number holds it

/// What no flag takes for a number that it is not.
const std::vector<std::string> kNoNumbers = {"",    "-1",    "1e400", "-99999999999999999999",
                                             "nan", "inf",   "0x10",  " 1",
                                             "1 ",  "1,5",   "+1",    "1e",
                                             "0b1", "1_000", "many",  "\n1",
                                             "1\t"};

/// The parser takes "--n=" for a flag whose value is the next word; what is no flag is its value alone.
std::vector<std::string> with_value(const std::string& flag, const std::string& text) {
  if (!flag.starts_with("-")) return {text};
  if (text.empty()) return {flag, text};
  return {flag + "=" + text};
}

template <typename Number>
std::optional<Number> read(const std::string& text, const schema::Range& range) {
  CLI::App app;
  Number number = 7;
  declare_number(app, {.name = "--n", .range = range, .help = ""}, number);
  try {
    std::vector<std::string> words = with_value("--n", text);
    std::ranges::reverse(words);  // as the parser wants them
    app.parse(words);
    return number;
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1007) << text;
    EXPECT_EQ(error.problem().where, "--n");
    EXPECT_EQ(number, 7) << "it stays as it was";
    return std::nullopt;
  }
}

TEST(NumberFlagTest, WhatIsANumberIsTakenExactly) {
  EXPECT_EQ(read<int64_t>("9223372036854775807", schema::at_least(0)), INT64_MAX);
  EXPECT_EQ(read<int64_t>("9007199254740993", schema::at_least(0)), (int64_t{1} << 53) + 1);
  EXPECT_EQ(read<int64_t>("-3", schema::any()), -3);
  EXPECT_EQ(read<int64_t>("010", schema::any()), 10) << "no octal";
  EXPECT_EQ(read<double>("1e-3", schema::at_least(0)), 1e-3);
  EXPECT_EQ(read<double>("0.1", schema::at_least(0)), 0.1);
}

TEST(NumberFlagTest, AnythingElseIsRefused) {
  for (const std::string& text : kNoNumbers) {
    EXPECT_EQ(read<int64_t>(text, schema::at_least(0)), std::nullopt) << text;
    EXPECT_EQ(read<double>(text, schema::at_least(0)), std::nullopt) << text;
  }
  for (const char* text : {"1.5", "1e3", kTooLong}) EXPECT_EQ(read<int64_t>(text, schema::at_least(0)), std::nullopt);
  EXPECT_EQ(read<int64_t>("9223372036854775808", schema::at_least(0)), std::nullopt);
  EXPECT_EQ(read<int64_t>("101", schema::between(1, 100)), std::nullopt);
  EXPECT_EQ(read<double>("-.inf", schema::any()), std::nullopt);
}

struct CommandOption {
  std::vector<std::string> words;  // of its command
  std::string name;
  std::string type;
};

void add_options(const CLI::App& app, const std::vector<std::string>& words, std::vector<CommandOption>& options) {
  for (const CLI::Option* option : app.get_options())
    options.push_back({words, option->get_name(), option->get_type_name()});
  for (const CLI::App* word : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> below = words;
    below.push_back(word->get_name());
    add_options(*word, below, options);
  }
}

/// Of every command, as the parser has them.
std::vector<CommandOption> all_options() {
  std::vector<CommandOption> options;
  for (const Command& command : all_commands()) {
    CLI::App app;
    command.declare(app);
    add_options(app, {command.name}, options);
  }
  return options;
}

TEST(NumberFlagTest, EveryNumberOfEveryCommandIsReadSo) {
  size_t numbers = 0;
  for (const CommandOption& option : all_options()) {
    SCOPED_TRACE(option.words.front() + " " + option.words.back() + " " + option.name);
    // The parser's own conversion takes '' for 0 and -1 for 2^64 - 1.
    const bool has_own_conversion =
        option.type == "INT" || option.type == "UINT" || option.type.find("FLOAT") != std::string::npos ||
        option.type.find("UINT:") != std::string::npos || option.type.find("INT:") != std::string::npos ||
        option.type.find(" in [") != std::string::npos;
    EXPECT_FALSE(has_own_conversion) << option.type;
    if (!option.type.starts_with(kWholeNumber) && !option.type.starts_with(kNumber)) continue;
    ++numbers;
    std::vector<std::string> refused = kNoNumbers;
    if (option.type.starts_with(kWholeNumber)) refused.emplace_back(kTooLong);
    for (const std::string& text : refused) {
      std::vector<std::string> words = option.words;
      for (const std::string& word : with_value(option.name, text)) words.push_back(word);
      const testing_support::CommandResult result = testing_support::run_command(words);
      EXPECT_EQ(result.status, 2) << "'" << text << "'\n" << result.err;
      EXPECT_NE(result.err.find("error E1007"), std::string::npos) << "'" << text << "'\n" << result.err;
      EXPECT_NE(result.err.find("where:  " + option.name + "\n"), std::string::npos) << "'" << text << "'\n"
                                                                                     << result.err;
    }
  }
  EXPECT_GE(numbers, 20U);
}

}  // namespace
}  // namespace megacpp::cli
