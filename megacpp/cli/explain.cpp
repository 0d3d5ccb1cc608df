// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/cli/command.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/compile/collective_report.h"
#include "megacpp/compile/compile.h"
#include "megacpp/memory/report.h"
#include "megacpp/plan/composition.h"
#include "megacpp/plan/parameter_table.h"
#include "megacpp/plan/plan.h"
#include "megacpp/plan/print.h"

namespace megacpp::cli {
namespace {

using compile::CollectiveRow;
using memory::human_bytes;

struct Flags {
  std::shared_ptr<RecipeFlags> recipe;
  bool json = false;
};

// All that is said, gathered before any of it is printed.
struct Explanation {
  recipe::Recipe recipe;
  plan::Plan plan;
  int64_t parameters = 0;  // elements
  int64_t peak_bytes = 0;
  std::vector<plan::CompositionStep> composition;
  std::vector<plan::ParameterRow> rows;
  plan::StateBytes state;
  std::vector<CollectiveRow> collectives;
};

Explanation explain(const recipe::Recipe& recipe) {
  Explanation e{.recipe = recipe, .plan = plan::make_plan(recipe), .composition = {}, .rows = {}, .collectives = {}};
  const compile::Compiled compiled = compile::compile_training(recipe, e.plan, target_for(recipe, e.plan));
  for (const blocks::Parameter& parameter : compiled.parameters) e.parameters += ir::num_elements(parameter.shape);
  e.peak_bytes = compiled.largest().memory.total_bytes;
  e.composition = plan::composition(e.plan, recipe);
  e.rows = plan::parameter_table(e.plan, compiled.parameters);
  e.state = plan::state_bytes(e.plan, compiled.parameters);
  e.collectives = compile::collective_report(compiled, recipe);
  return e;
}

std::string shape_text(const ir::Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

const char* class_name(const plan::ParameterRow& row) { return row.replicated ? "replicated" : "sharded"; }

// ---- Text ----

void print_header(const Explanation& e) {
  fmt::print("model   {}  pattern {}  depth {}  {:.2f}M parameters\n", e.recipe.name, e.recipe.model.pattern,
             e.recipe.model.depth, static_cast<double>(e.parameters) / 1e6);
  fmt::print("mesh    {}  chips {}\n", to_string(e.plan.parallel.mesh), e.plan.chips);
  fmt::print("layout  {}\n", plan::layout_line(e.plan));
  fmt::print("peak    {} per chip\n\n", human_bytes(e.peak_bytes));
  fmt::print("Composition, in this order for every model:\n");
  for (size_t i = 0; i < e.composition.size(); ++i)
    fmt::print("  {}. {:<16} {}\n", i + 1, e.composition[i].step, e.composition[i].here);
}

void print_parameters(const Explanation& e) {
  fmt::print("\nParameters: how each lies between steps (stored), in products (computed) and in the optimizer.\n");
  TextTable table({"name", ">shape", ">local", "class", "stored", "computed", "optimizer", ">bytes/chip", "why"});
  for (const plan::ParameterRow& row : e.rows)
    table.add({row.count == 1 ? row.name : fmt::format("{} (x{})", row.name, row.count), shape_text(row.shape),
               shape_text(row.local), class_name(row), row.stored, row.computed, row.optimizer,
               human_bytes(row.stored_bytes), row.why});
  fmt::print("{}", table.to_text());
  const char* where = e.plan.stages > 1 ? " (all stages together)" : "";
  fmt::print("{} parameters; per chip{}: weights {}, of which replicated {}; gradients {}; optimizer {}", e.parameters,
             where, human_bytes(e.state.weights), human_bytes(e.state.replicated), human_bytes(e.state.gradients),
             human_bytes(e.state.optimizer));
  if (e.state.kept > 0) fmt::print("; weights kept from forward to backward {}", human_bytes(e.state.kept));
  fmt::print("\n");
}

std::string removal_text(const CollectiveRow& row) {
  const compile::Removal& removal = row.removal;
  if (removal.changes.empty()) return "needed: " + removal.note;
  std::string text = fmt::format("remove by {}", fmt::join(removal.changes, " "));
  if (row.cost_bytes && *row.cost_bytes != 0)
    text +=
        fmt::format(", {} {} per chip", human_bytes(std::abs(*row.cost_bytes)), *row.cost_bytes > 0 ? "more" : "less");
  return removal.note.empty() ? text : text + "; " + removal.note;
}

// Rows that go away together stand together, under what removes them.
void print_collectives(const Explanation& e) {
  if (e.collectives.empty()) return fmt::print("\nCollectives: none.\n");
  fmt::print("\nCollectives: bytes one chip sends; forward and backward once per micro-step, update once per step.\n");
  const int64_t stages = e.plan.stages;
  TextTable table(
      {stages > 1 ? "  phase, stage" : "  phase", "kind", "axes", ">calls", ">bytes/call", ">bytes", "where", "cause"});
  std::vector<bool> printed(e.collectives.size(), false);
  for (size_t first = 0; first < e.collectives.size(); ++first) {
    if (printed[first]) continue;
    const std::string removal = removal_text(e.collectives[first]);
    table.add_line(fmt::format("{} - {}", e.collectives[first].removal.purpose, removal));
    for (size_t i = first; i < e.collectives.size(); ++i) {
      const CollectiveRow& row = e.collectives[i];
      if (printed[i] || row.removal.purpose != e.collectives[first].removal.purpose || removal_text(row) != removal)
        continue;
      printed[i] = true;
      table.add({fmt::format("  {}{}", compile::phase_name(row.phase), stages > 1 ? fmt::format(" {}", row.stage) : ""),
                 row.kind, row.axes, std::to_string(row.calls), human_bytes(row.bytes), human_bytes(row.total_bytes()),
                 row.where, row.cause});
    }
  }
  fmt::print("{}", table.to_text());
  fmt::print(
      "A chip sends {}{} per step of {} micro-steps. Counted as a ring of n sends: all_gather (n-1) x its part,\n"
      "reduce_scatter and all_to_all (n-1)/n of what it has, all_reduce twice that, the others all.\n",
      stages > 1 ? "at most " : "", human_bytes(step_bytes(e.collectives, e.recipe.train.micro_steps)),
      e.recipe.train.micro_steps);
}

// ---- JSON ----

Json parameter_json(const plan::ParameterRow& row) {
  return {{"name", row.name},
          {"count", row.count},
          {"shape", row.shape},
          {"local", row.local},
          {"class", class_name(row)},
          {"stored", row.stored},
          {"computed", row.computed},
          {"gradient", row.gradient},
          {"optimizer", row.optimizer},
          {"stored_bytes", row.stored_bytes},
          {"why", row.why}};
}

Json collective_json(const CollectiveRow& row) {
  Json json = {{"phase", std::string(compile::phase_name(row.phase))},
               {"stage", row.stage},
               {"kind", row.kind},
               {"axes", row.axes},
               {"where", row.where},
               {"cause", row.cause},
               {"calls", row.calls},
               {"bytes_per_call", row.bytes},
               {"bytes", row.total_bytes()},
               {"purpose", row.removal.purpose},
               {"remove_by", row.removal.changes},
               {"note", row.removal.note}};
  json["cost_bytes"] = row.cost_bytes ? Json(*row.cost_bytes) : Json();
  return json;
}

void print_as_json(const Explanation& e) {
  Json composition = Json::array(), parameters = Json::array(), collectives = Json::array();
  for (const plan::CompositionStep& step : e.composition)
    composition.push_back(Json{{"step", step.step}, {"here", step.here}});
  for (const plan::ParameterRow& row : e.rows) parameters.push_back(parameter_json(row));
  for (const CollectiveRow& row : e.collectives) collectives.push_back(collective_json(row));
  print_json({{"name", e.recipe.name},
              {"pattern", e.recipe.model.pattern},
              {"mesh", to_string(e.plan.parallel.mesh)},
              {"chips", e.plan.chips},
              {"layout", plan::layout_line(e.plan)},
              {"composition", composition},
              {"parameters", parameters},
              {"parameter_count", e.parameters},
              {"weight_bytes", e.state.weights},
              {"replicated_bytes", e.state.replicated},
              {"gradient_bytes", e.state.gradients},
              {"optimizer_bytes", e.state.optimizer},
              {"peak_bytes", e.peak_bytes},
              {"collectives", collectives},
              {"sent_bytes_per_step", step_bytes(e.collectives, e.recipe.train.micro_steps)}});
}

int run_explain(const Flags& flags) {
  const Explanation e = explain(flags.recipe->load());
  if (flags.json) {
    print_as_json(e);
  } else {
    print_header(e);
    print_parameters(e);
    print_collectives(e);
  }
  return 0;
}

}  // namespace

Command explain_command() {
  return {.name = "explain",
          .summary = "where every parameter lies on the mesh and why, and every collective with what would remove it",
          .example = "megacpp explain recipes/nam52.yaml --set layout.tensor_parallel=8",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<Flags>();
            flags->recipe = declare_recipe_flags(app);
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_explain(*flags); };
          }};
}

}  // namespace megacpp::cli
