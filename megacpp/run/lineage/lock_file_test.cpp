// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/lock_file.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::lineage {
namespace {

using base::Code;
using testing_support::problem_of;

Lock sound_lock() {
  return {.architecture = runtime::plugins::this_machine(),
          .facts = {{"sqlite", "3.40.1"}, {"env.XLA_FLAGS", "--a=\"b\"\n"}, {"gpus", kNone}}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LockFileTest, ReadsBackAsWrittenAndTheSameFactsAreTheSameBytes) {
  const std::string text = print_lock(sound_lock());
  EXPECT_EQ(parse_lock(text, "a lock"), sound_lock());
  EXPECT_EQ(print_lock(parse_lock(text, "a lock")), text);
  EXPECT_EQ(text.back(), '\n');
  const Lock none{.architecture = "x86_64", .facts = {}};
  EXPECT_EQ(parse_lock(print_lock(none), "a lock"), none);
}

TEST(LockFileTest, EveryCutIsNamed) {
  const std::string text = print_lock(sound_lock());
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_EQ(testing_support::error_of([&] { parse_lock(text.substr(0, length), "a lock"); }).code(), Code::E1901)
        << length;
}

TEST(LockFileTest, AnEditIsNamed) {
  const std::string text = print_lock(sound_lock());
  for (const std::string& edited : {replaced(text, "3.40.1", "3.40.2"), replaced(text, "\"gpus\"", "\"gpu\""),
                                    replaced(text, "\"architecture\": \"", "\"architecture\": \"not-"),
                                    replaced(text, "\"checksum\": \"", "\"checksum\": \"0")}) {
    const base::Problem problem = problem_of(Code::E1901, [&] { parse_lock(edited, "a lock"); });
    EXPECT_EQ(problem.where, "a lock");
    EXPECT_NE(problem.got.find("edited"), std::string::npos) << problem.got;
    EXPECT_NE(problem.next.find("doctor --write"), std::string::npos) << problem.next;
  }
}

TEST(LockFileTest, WhatIsNoLockFileIsNamed) {
  const std::string text = print_lock(sound_lock());
  for (const std::string& other :
       {std::string("[]"), std::string("{}"), std::string("3"), replaced(text, "megacpp lock file", "package lock"),
        replaced(text, "\"version\": 1", "\"version\": 0"), replaced(text, "\"version\": 1", "\"version\": \"1\""),
        replaced(text, "\"3.40.1\"", "3"), replaced(text, "\"runtime\"", "\"runtim\""),
        replaced(text, "\"checksum\"", "\"sum\"")})
    problem_of(Code::E1901, [&] { parse_lock(other, "a lock"); });
}

TEST(LockFileTest, ANewerVersionIsNamedWhateverElseItHas) {
  const base::Problem problem = problem_of(
      Code::E1902, [] { parse_lock(R"({"format": "megacpp lock file", "version": 2, "machines": []})", "a lock"); });
  EXPECT_EQ(problem.got, "version 2");
}

TEST(LockFileTest, AnotherArchitectureIsNamed) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder / kLockName;
  Lock lock = sound_lock();
  base::write_file_atomically(file, print_lock(lock));
  EXPECT_EQ(read_lock(file), lock);
  lock.architecture = "riscv64";
  base::write_file_atomically(file, print_lock(lock));
  const base::Problem problem = problem_of(Code::E1903, [&] { read_lock(file); });
  EXPECT_EQ(problem.where, file.string());
  EXPECT_EQ(problem.got, "a lock file of riscv64");
  problem_of(Code::E1008, [&] { read_lock(folder / "absent"); });
}

TEST(LockFileTest, TheOneBesideTheRecipeComesBeforeTheUsers) {
  const testing_support::TemporaryFolder folder;
  runtime::plugins::Surroundings around;
  around.variables["HOME"] = folder / "home";
  const std::filesystem::path users = folder / "home/.config/megacpp/megacpp.lock", recipe = folder / "recipes/a.yaml";
  EXPECT_EQ(users_lock_file(around), users);
  EXPECT_FALSE(find_lock(recipe, around).has_value());
  base::make_folder(users.parent_path());
  base::write_file_atomically(users, "users");
  EXPECT_EQ(find_lock(recipe, around), users);
  EXPECT_EQ(find_lock({}, around), users);
  base::make_folder(folder / "recipes");
  base::write_file_atomically(folder / "recipes/megacpp.lock", "recipe's");
  EXPECT_EQ(find_lock(recipe, around), folder / "recipes/megacpp.lock");
  around.variables["XDG_CONFIG_HOME"] = folder / "config";
  EXPECT_EQ(users_lock_file(around), folder / "config/megacpp/megacpp.lock");
  around.variables["XDG_CONFIG_HOME"] = "relative";
  EXPECT_EQ(users_lock_file(around), users);
  EXPECT_EQ(users_lock_file({}), std::filesystem::path());
}

}  // namespace
}  // namespace megacpp::lineage
