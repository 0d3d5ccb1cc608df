// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_data.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/run/data/open_source.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

class RunDataTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) write(name, std::string("text of ") + name);
  }
  void write(const std::string& name, const std::string& text) { base::write_file_atomically(folder_ / name, text); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::unique_ptr<data::TokenSource> open(const std::vector<std::string>& names) const {
    recipe::Data data;
    for (const std::string& name : names) data.text.push_back(at(name));
    return data::open_source(data);
  }
  /// A run directory that was trained on these files.
  void keep(const std::vector<std::string>& names) { write("data.json", data_text(*open(names))); }
  std::optional<std::string> change(const std::vector<std::string>& names) const {
    return changed_data(folder_.path(), *open(names));
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(RunDataTest, TheSameDataAreTheSame) {
  EXPECT_EQ(change({"a.txt"}), std::nullopt) << "it is not known what they were";
  keep({"a.txt", "b.txt"});
  EXPECT_EQ(change({"a.txt", "b.txt"}), std::nullopt);
  write("a.txt", "text of a.txt");  // touched alone
  EXPECT_EQ(change({"a.txt", "b.txt"}), std::nullopt);
}

TEST_F(RunDataTest, WhatHasChangedIsNamed) {
  keep({"a.txt", "b.txt"});
  EXPECT_EQ(change({"b.txt", "a.txt"}), "the same parts in another order");
  EXPECT_EQ(change({"a.txt", "b.txt", "c.txt"}), "new: " + at("c.txt"));
  EXPECT_EQ(change({"a.txt"}), "gone: " + at("b.txt"));
  write("a.txt", "text of a");
  EXPECT_EQ(change({"a.txt", "c.txt"}), "changed: " + at("a.txt") + "; gone: " + at("b.txt") + "; new: " + at("c.txt"));
}

TEST_F(RunDataTest, ManyFilesAreCounted) {
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) {
    names.push_back("many" + std::to_string(i));
    write(names.back(), "text");
  }
  keep({"a.txt"});
  names.insert(names.begin(), "a.txt");
  EXPECT_TRUE(change(names)->ends_with("many4 and 3 more")) << *change(names);
}

TEST_F(RunDataTest, SharesOfABlendCount) {
  const std::string dataset = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/datasets/";
  const auto blend = [&](const char* first) {
    return data::open_source({.blend = {dataset + "int32=" + first, dataset + "uint16=1"}});
  };
  write("data.json", data_text(*blend("3")));
  EXPECT_EQ(changed_data(folder_.path(), *blend("3")), std::nullopt);
  const std::optional<std::string> other = changed_data(folder_.path(), *blend("1"));
  ASSERT_TRUE(other);
  EXPECT_NE(other->find("gone: 25.0% "), std::string::npos) << *other;
  EXPECT_NE(other->find("new: 50.0% "), std::string::npos) << *other;
}

TEST_F(RunDataTest, OtherDataAreRefusedAndDamageIsNamed) {
  keep({"a.txt"});
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1007, [&] { require_same_data(folder_.path(), *open({"b.txt"})); });
  EXPECT_NE(problem.next.find("--allow-changed-data"), std::string::npos) << problem.next;
  for (const char* text : {"", "{}", "[]", R"({"fingerprint": 7})"}) {
    write("data.json", text);
    testing_support::problem_of(base::Code::E1008, [&] { change({"a.txt"}); });
  }
}

}  // namespace
}  // namespace megacpp::launch
