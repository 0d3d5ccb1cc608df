// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

void read_recipe(Bytes input) {
  const recipe::Recipe recipe = recipe::parse(as_text(input), "fuzz.yaml");
  require(recipe::parse(recipe::print(recipe), "printed.yaml") == recipe, "a printed recipe reads back as another");
  plan::make_plan(recipe);
}

}  // namespace

Target recipe_target() {
  return {.name = "recipe", .subject = "recipes as YAML text", .weight = 100, .run = read_recipe};
}

}  // namespace megacpp::fuzz
