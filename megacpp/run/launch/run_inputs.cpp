// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_inputs.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::launch {
namespace {

using collectives::Field;

constexpr std::string_view kFlagTest = "TrainInputsTest, EveryFlagIsComparedAsTheTableSays";
constexpr std::string_view kVariableTest = "RunInputsTest, EveryVariableIsComparedAsTheTableSays";

constexpr std::array kInputs = {
#define MEGACPP_FLAG(name, held, how) RunInput{InputKind::flag, name, Held::held, how, kFlagTest},
#define MEGACPP_CONTENT(name, held, how, test)
#include "megacpp/run/launch/run_inputs.inc"
#undef MEGACPP_FLAG
#undef MEGACPP_CONTENT
#define MEGACPP_VARIABLE(name, held, how) RunInput{InputKind::variable, #name, Held::held, how, kVariableTest},
#include "megacpp/core/base/environment_variables.inc"
#undef MEGACPP_VARIABLE
#define MEGACPP_FLAG(name, held, how)
#define MEGACPP_CONTENT(name, held, how, test) RunInput{InputKind::content, name, Held::held, how, test},
#include "megacpp/run/launch/run_inputs.inc"
#undef MEGACPP_FLAG
#undef MEGACPP_CONTENT
};

constexpr const char* kNotGiven = "not given";

const RunInput* find_input(InputKind kind, std::string_view name) {
  const auto found =
      std::ranges::find_if(kInputs, [&](const RunInput& input) { return input.kind == kind && input.name == name; });
  return found == kInputs.end() ? nullptr : &*found;
}

Field field_of_use(const RunInput& input, const std::string* value) {
  if (value == nullptr) return {std::string(input.name), kNotGiven};
  return {std::string(input.name), input.held == Held::same_use ? "given" : *value};
}

std::string title_of(const RunInput& input) {
  return input.kind == InputKind::content ? std::string(input.name) : fmt::format("`{}`", input.name);
}

bool say_the_same(const RunInput& a, const RunInput& b) {
  return a.kind == b.kind && a.held == b.held && a.how == b.how && a.test == b.test;
}

// "AgreementTest.DifferentBuildsAreRefused"
std::string test_text(std::string_view test) {
  const size_t comma = test.find(", ");
  return comma == std::string_view::npos ? "" : fmt::format("{}.{}", test.substr(0, comma), test.substr(comma + 2));
}

}  // namespace

bool is_compared(Held held) { return held == Held::same_text || held == Held::same_use || held == Held::same_content; }

std::span<const RunInput> run_inputs() { return kInputs; }

std::vector<Field> flag_fields(const GivenFlags& given) {
  std::vector<Field> fields;
  for (const RunInput& input : kInputs) {
    if (input.kind != InputKind::flag || !is_compared(input.held)) continue;
    const auto value = given.find(input.name);
    fields.push_back(field_of_use(input, value == given.end() ? nullptr : &value->second));
  }
  for (const auto& [name, value] : given)
    if (find_input(InputKind::flag, name) == nullptr) fields.push_back({name, value});
  return fields;
}

std::vector<Field> environment_fields(const std::function<std::string(const std::string& name)>& variable) {
  std::vector<Field> fields;
  for (const RunInput& input : kInputs) {
    if (input.kind != InputKind::variable || !is_compared(input.held)) continue;
    const std::string value = variable(std::string(input.name));
    fields.push_back(field_of_use(input, value.empty() ? nullptr : &value));
  }
  return fields;
}

Field input_field(std::string_view input, std::string name, std::string value) {
  const RunInput* const row = find_input(InputKind::content, input);
  MEGACPP_CHECK(row != nullptr && is_compared(row->held))
      << "launch/run_inputs.inc does not say that processes compare '" << input << "'";
  return {std::move(name), std::move(value)};
}

std::vector<Field> recipe_fields(const recipe::Recipe& recipe) {
  std::vector<Field> fields;
  for (recipe::Setting& setting : recipe::settings_of(recipe))
    fields.push_back(input_field("recipe", std::move(setting.key), std::move(setting.value)));
  return fields;
}

std::vector<Field> chip_fields(const hw::Chip& chip) {
  std::vector<Field> fields = {input_field("chip", "chip", chip.name)};
  for (const hw::Fact& fact : chip.facts) fields.push_back(input_field("chip", "chip: " + fact.name, fact.value));
  return fields;
}

std::vector<Field> lineage_fields(const lineage::Lineage& lineage) {
  std::set<std::string> libraries;
  for (const lineage::Probe& probe : lineage::all_probes())
    if (probe.group == "libraries") libraries.insert(probe.name);
  std::vector<Field> fields;
  for (const lineage::Fact& fact : lineage.live)
    if (libraries.contains(fact.name)) fields.push_back(input_field("libraries", "library " + fact.name, fact.value));
  std::string documented = lineage.lock_file.empty() ? "none" : lineage.unread;
  if (documented.empty()) {
    std::string text;
    for (const lineage::Fact& fact : lineage.documented) text += fact.name + '\0' + fact.value + '\0';
    documented = base::hash_text(text);
  }
  fields.push_back(input_field("lock file", "lock file", std::move(documented)));
  return fields;
}

std::string run_inputs_table() {
  std::vector<std::pair<const RunInput*, std::string>> rows;  // the first of those that say the same, and all of them
  for (const RunInput& input : kInputs) {
    const auto row = std::ranges::find_if(rows, [&](const auto& known) { return say_the_same(*known.first, input); });
    if (row == rows.end())
      rows.emplace_back(&input, title_of(input));
    else
      row->second += ", " + title_of(input);
  }
  std::string text = "| input | between processes | as what, or why | test |\n| --- | --- | --- | --- |\n";
  for (const auto& [input, titles] : rows)
    text +=
        fmt::format("| {} | {} | {} | {} |\n", titles, base::text_of(input->held), input->how, test_text(input->test));
  return text;
}

}  // namespace megacpp::launch
