// SPDX-License-Identifier: Apache-2.0
// Two processes of a training that differ in one flag after the other, as the command declares them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/given_flags.h"
#include "megacpp/cli/train_from.h"
#include "megacpp/run/launch/run_inputs.h"
#include "tests/support/two_processes.h"

namespace megacpp::cli {

Command train_command();

namespace {

using collectives::Field;
using launch::RunInput;
using testing_support::difference_between;

// A flag is given each of these; what it takes for none decides who runs the command.
const std::vector<std::string> kValues = {"1", "2"};

// What a process compares that was given these words.
std::vector<Field> fields_of(const std::vector<std::string>& words) {
  CLI::App app;
  const std::function<int()> body = train_command().declare(app);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  app.parse(reversed);
  return launch::flag_fields(given_flags(app));
}

std::vector<std::string> words_with(const CLI::Option& option, const std::string& value) {
  if (option.get_positional()) return {value};
  if (option.get_items_expected_max() == 0) return {option.get_name()};
  return {option.get_name(), option.get_name() == "--set" ? "train.steps=" + value : value};
}

const RunInput* row_of(const std::string& flag) {
  const auto rows = launch::run_inputs();
  const auto found = std::ranges::find_if(
      rows, [&](const RunInput& row) { return row.kind == launch::InputKind::flag && row.name == flag; });
  return found == rows.end() ? nullptr : &*found;
}

TEST(TrainInputsTest, EveryFlagIsComparedAsTheTableSays) {
  CLI::App app;
  const std::function<int()> body = train_command().declare(app);
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = option->get_name();
    if (flag == "--help") continue;  // no process that is asked for help trains
    flags.push_back(flag);
    const RunInput* const row = row_of(flag);
    ASSERT_NE(row, nullptr) << flag << " has no row in launch/run_inputs.inc: say there how processes hold it";
    const std::vector<Field> none = fields_of({}), one = fields_of(words_with(*option, kValues[0])),
                             two = fields_of(words_with(*option, kValues[1]));
    const bool takes_value = option->get_items_expected_max() > 0;
    const bool is_text = row->held == launch::Held::same_text;
    const std::string given = row->held == launch::Held::same_use ? "given" : kValues[0];
    EXPECT_EQ(difference_between(none, one), is_compared(row->held) ? flag + " " + given : "");
    EXPECT_EQ(difference_between(one, none), is_compared(row->held) ? flag + " not given" : "");
    EXPECT_EQ(difference_between(one, two), is_text && takes_value ? flag + " " + kValues[1] : "") << flag;
  }
  for (const RunInput& row : launch::run_inputs()) {
    if (row.kind != launch::InputKind::flag) continue;
    EXPECT_EQ(std::ranges::count(flags, std::string(row.name)), 1) << "train has no flag " << row.name;
  }
}

// Whoever runs a program whose table lacks a flag is on the safe side.
TEST(TrainInputsTest, AFlagWithoutARowIsComparedAsItIsGiven) {
  EXPECT_EQ(difference_between(launch::flag_fields({{"--new", "a"}}), launch::flag_fields({{"--new", "b"}})),
            "--new b");
}

}  // namespace
}  // namespace megacpp::cli
