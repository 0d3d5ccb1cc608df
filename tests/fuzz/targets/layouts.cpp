// SPDX-License-Identifier: Apache-2.0
// Any small model in any layout: the gates refuse it with a code of theirs, or it trains as on one chip.
#include "megacpp/program/plan/plan.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"
#include "tests/parity/random_recipe.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::fuzz {
namespace {

namespace support = testing_support;

/// Throws what they refuse the layout with.
void require_gates(const recipe::Recipe& recipe) {
  try {
    plan::make_plan(recipe);
  } catch (const base::Error& error) {
    if (error.code() < base::Code::E1401 || error.code() > base::Code::E1407)
      throw BrokenProperty("a layout is refused by other than a gate\n" + std::string(error.what()));
    throw;
  }
}

void train_in_layout(Bytes input) {
  Choices choices(input);
  support::Draw draw([&] { return choices.byte() * 0x01010101u; });  // a byte a decision
  support::Overrides overrides;
  const bool has_experts = support::draw_model(draw, overrides);
  support::draw_training(draw, overrides);
  support::draw_layout(draw, has_experts, overrides);
  const recipe::Recipe recipe = overrides.recipe();
  require_gates(recipe);
  try {
    const support::Comparison comparison = support::compare_with_one_chip(recipe);
    require(comparison.on_edge || comparison.problems.empty(),
            "a layout changes the result\n" + comparison.problems + overrides.command());
  } catch (const base::Error& error) {
    throw BrokenProperty("a layout that the gates let pass is refused later\n" + std::string(error.what()) + "\n" +
                         overrides.command());
  }
}

}  // namespace

Target layouts_target() {
  return {.name = "layouts",
          .subject = "models and layouts against one chip",
          .weight = 1,
          .run = train_in_layout,
          .limit = std::chrono::seconds(60)};  // it trains up to eight times
}

}  // namespace megacpp::fuzz
