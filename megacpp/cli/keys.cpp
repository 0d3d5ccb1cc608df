// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::cli {
namespace {

Json keys_json() {
  const recipe::Recipe defaults;
  Json rows = Json::array();
  for (const recipe::Key& key : recipe::keys())
    rows.push_back(Json{{"key", key.path},
                        {"kind", recipe::kind_name(key.kind)},
                        {"required", recipe::is_required(key)},
                        {"default", recipe::is_required(key) ? Json() : Json(value_text(member_of(key, defaults)))},
                        {"range", describe(key.range)},
                        {"meaning", key.doc}});
  return {{"keys", rows}};
}

}  // namespace

Command keys_command() {
  return {.name = "keys",
          .summary = "list every recipe key: type, default, range, meaning",
          .example = "megacpp keys --json",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "print JSON; a default is the text a recipe would have");
            return [json] {
              if (*json)
                print_json(keys_json());
              else
                write_output(recipe::key_table());
              return 0;
            };
          }};
}

}  // namespace megacpp::cli
