// SPDX-License-Identifier: Apache-2.0
// Two processes that differ in one input after the other, made from the tables of keys, variables, numbers and
// libraries. Flags are differed where they are declared, in cli/train_inputs_test.cpp.
#include "megacpp/run/launch/run_inputs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/run/lineage/check.h"
#include "megacpp/run/lineage/probe.h"
#include "tests/support/errors.h"
#include "tests/support/two_processes.h"

namespace megacpp::launch {
namespace {

using testing_support::difference_between;

const std::filesystem::path kSources = MEGACPP_SOURCE_DIR;

struct ToAnother {
  void operator()(int64_t* value) const { *value += 1; }
  void operator()(double* value) const { *value = *value == 0.5 ? 0.25 : 0.5; }
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::string* value) const { *value += value->empty() ? 'x' : value->front(); }
  void operator()(std::vector<std::string>* value) const { value->emplace_back("x"); }
  void operator()(schema::ByteSize* value) const { value->bytes += 1; }
  void operator()(const schema::TextValue& value) const {
    const std::string before = value.text(value.value);
    for (const std::string& choice : choices)
      if (choice != before && value.read(choice, value.value)) return;
    EXPECT_TRUE(value.read("other", value.value)) << "no other value than " << before;
  }
  const std::vector<std::string>& choices;  // of the key
};

TEST(RunInputsTest, EveryRecipeKeyIsCompared) {
  const recipe::Recipe recipe = recipe::load(kSources / "recipes/nam56r-tiny.yaml");
  for (const recipe::Key& key : recipe::keys()) {
    recipe::Recipe other = recipe;
    std::visit(ToAnother{key.range.choices}, key.member(other));
    const std::string difference = difference_between(recipe_fields(recipe), recipe_fields(other));
    EXPECT_NE(difference.find(key.path + " "), std::string::npos) << key.path << ": " << difference;
  }
}

TEST(RunInputsTest, EveryVariableIsComparedAsTheTableSays) {
  size_t variables = 0;
  for (const RunInput& input : run_inputs()) {
    if (input.kind != InputKind::variable) continue;
    ++variables;
    const auto fields_with = [&input](const std::string& value) {
      return environment_fields([&](const std::string& name) { return name == input.name ? value : ""; });
    };
    const bool is_seen = is_compared(input.held);
    const std::string name(input.name);
    EXPECT_EQ(difference_between(fields_with(""), fields_with("a")), is_seen ? name + " a" : "") << name;
    EXPECT_EQ(difference_between(fields_with("a"), fields_with("b")), is_seen ? name + " b" : "") << name;
  }
  EXPECT_GT(variables, 0u);
}

// What plans are made with, of each chip that has a file.
TEST(RunInputsTest, EveryNumberOfAChipFileIsCompared) {
  const hw::Chip chip = hw::find_chip("v6e", {});
  ASSERT_FALSE(chip.facts.empty());
  for (size_t i = 0; i < chip.facts.size(); ++i) {
    hw::Chip other = chip;
    other.facts[i].value += "0";
    EXPECT_EQ(difference_between(chip_fields(chip), chip_fields(other)),
              "chip: " + other.facts[i].name + " " + other.facts[i].value);
    other.facts.erase(other.facts.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(difference_between(chip_fields(chip), chip_fields(other)), "chip: " + chip.facts[i].name + " absent");
  }
  hw::Chip elsewhere = chip;
  elsewhere.origin = "/home/b/v6e.yaml";
  for (hw::Fact& fact : elsewhere.facts) fact.source = "another page";
  EXPECT_EQ(difference_between(chip_fields(chip), chip_fields(elsewhere)), "") << "where its file is does not matter";
}

TEST(RunInputsTest, EveryLibraryIsCompared) {
  const lineage::Lineage lineage = lineage::check_lineage({}, {});
  size_t libraries = 0;
  for (const lineage::Probe& probe : lineage::all_probes()) {
    lineage::Lineage other = lineage;
    for (lineage::Fact& fact : other.live)
      if (fact.name == probe.name) fact.value = "another";
    const bool is_library = probe.group == "libraries";
    libraries += is_library ? 1 : 0;
    EXPECT_EQ(difference_between(lineage_fields(lineage), lineage_fields(other)),
              is_library ? "library " + probe.name + " another" : "")
        << probe.name << ": machines of a run may have other processors, kernels and memory";
  }
  EXPECT_GT(libraries, 0u);
}

TEST(RunInputsTest, ALockFileIsComparedByWhatItDocumentsWhereverItIs) {
  const lineage::Lineage lock{.lock_file = "/home/a/megacpp.lock", .documented = {{"sqlite", "3.40.1"}}};
  lineage::Lineage other = lock;
  other.lock_file = "/home/b/megacpp.lock";
  EXPECT_EQ(difference_between(lineage_fields(lock), lineage_fields(other)), "");
  other.documented[0].value = "3.40.2";
  EXPECT_NE(difference_between(lineage_fields(lock), lineage_fields(other)), "");
  EXPECT_EQ(difference_between(lineage_fields(lock), lineage_fields({})), "lock file none");
}

TEST(RunInputsTest, AFieldOfAnInputThatIsNotComparedIsADefect) {
  for (const char* input : {"the weather", "catalog"})
    EXPECT_EQ(testing_support::error_of([input] { input_field(input, "a", "b"); }).code(), base::Code::E9001) << input;
}

TEST(RunInputsTest, InputsThatMayDifferSayWhy) {
  std::set<std::pair<InputKind, std::string_view>> names;
  for (const RunInput& input : run_inputs()) {
    EXPECT_TRUE(names.emplace(input.kind, input.name).second) << input.name << " stands twice";
    EXPECT_TRUE(is_compared(input.held) || !input.how.empty()) << input.name;
    EXPECT_TRUE(!is_compared(input.held) || !input.test.empty()) << input.name << " is compared and no test differs it";
  }
}

// "Suite, Case" as the table has it.
TEST(RunInputsTest, TheTestsThatTheTableNamesExist) {
  std::string tests;
  for (const char* folder : {"megacpp/cli", "megacpp/run/launch"})
    for (const std::filesystem::path& file : base::list_folder(kSources / folder))
      if (file.string().ends_with("_test.cpp")) tests += base::read_file(file);
  for (const RunInput& input : run_inputs())
    EXPECT_NE(tests.find("(" + std::string(input.test)), std::string::npos) << input.name << ": " << input.test;
}

TEST(RunInputsTest, ThePageShowsTheTable) {
  const std::string page = base::read_file(kSources / "docs/hosts.md");
  EXPECT_NE(page.find(run_inputs_table()), std::string::npos) << run_inputs_table();
}

}  // namespace
}  // namespace megacpp::launch
