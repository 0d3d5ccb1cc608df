// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/layout_report.h"

#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/text_table.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::cli {
namespace {

template <typename Say>
void for_layout_keys(const plan::PlannedRecipe& planned, const Say& say) {
  const recipe::Recipe &recipe = planned.recipe(), resolved = planned.resolved();
  for (const recipe::Key& key : recipe::keys())
    if (key.path.starts_with("layout.")) say(key, recipe::member_of(key, recipe), recipe::member_of(key, resolved));
}

struct ValueJson {
  Json operator()(const recipe::ByteSize* size) const { return size->bytes; }
  Json operator()(const schema::TextValue& value) const { return value.text(value.value); }
  Json operator()(const auto* value) const { return *value; }
};

}  // namespace

std::string decided_text(const plan::PlannedRecipe& planned) {
  std::vector<std::string> parts;
  for_layout_keys(planned,
                  [&parts](const recipe::Key& key, const recipe::Member& given, const recipe::Member& resolved) {
                    const std::string text = recipe::value_text(resolved);
                    if (recipe::value_text(given) != text) parts.push_back(key.path + ": " + text);
                  });
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json resolved_layout_json(const plan::PlannedRecipe& planned) {
  Json json;
  for_layout_keys(planned, [&json](const recipe::Key& key, const recipe::Member&, const recipe::Member& resolved) {
    json[key.path] = std::visit(ValueJson{}, resolved);
  });
  return json;
}

std::string composition_text(const std::vector<plan::CompositionStep>& steps) {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("  {}. {:<16} {}\n", i + 1, steps[i].step, steps[i].here);
  return text;
}

Json composition_json(const std::vector<plan::CompositionStep>& steps) {
  Json json = Json::array();
  for (const plan::CompositionStep& step : steps) json.push_back(Json{{"step", step.step}, {"here", step.here}});
  return json;
}

std::string shape_text(const ir::Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

const char* class_name(const plan::ParameterRow& row) {
  if (!row.whole) return "sharded";
  return row.replicated() ? "replicated" : "whole";
}

std::string parameters_text(const std::vector<plan::ParameterRow>& rows, const plan::Plan& plan) {
  const bool has_stages = plan.stages > 1;
  std::vector<std::string> headings = {"name",     ">shape",    ">local", "class",       "stored",
                                       "computed", "optimizer", "group",  ">bytes/chip", "why"};
  if (has_stages) headings.insert(headings.begin(), ">stage");
  TextTable table(std::move(headings));
  for (const plan::ParameterRow& row : rows) {
    std::vector<std::string> cells = {row.count == 1 ? row.name : fmt::format("{} (x{})", row.name, row.count),
                                      shape_text(row.shape),
                                      shape_text(row.local),
                                      class_name(row),
                                      row.stored,
                                      row.computed,
                                      row.optimizer,
                                      row.group,
                                      memory::human_bytes(row.stored_bytes),
                                      row.why};
    if (has_stages) cells.insert(cells.begin(), std::to_string(row.stage));
    table.add(std::move(cells));
  }
  return "Parameters: how each is sharded between steps (stored), in products (computed) and in the optimizer; "
         "groups are updated alike.\n" +
         table.to_text();
}

}  // namespace megacpp::cli
