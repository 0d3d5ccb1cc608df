// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/layout_report.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/planned.h"
#include "megacpp/cli/planning_progress.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/cli/xla_report.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/hardware/fit/deep_plan.h"
#include "megacpp/hardware/fit/deep_tables.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/composition.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/plan/pipeline_schedule.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/plan/print.h"
#include "megacpp/run/launch/features.h"

namespace megacpp::cli {
namespace {

using compile::CollectiveRow;
using memory::human_bytes;

struct ExplainFlags {
  std::shared_ptr<RecipeFlags> recipe;
  XlaFlags xla;
  bool features = false;
  bool json = false;
};

// What one chip of a pipeline stage holds; without a pipeline there is one stage.
struct StageSummary {
  int64_t stage = 0;
  int64_t peak_bytes = 0;
  plan::StateBytes state;
  int64_t replicated_bytes = 0;    // of weights that another chip holds whole too
  int64_t copy_bytes = 0;          // of weights in the type that products read, beside the stored ones
  double idle = 0;                 // part of a step
  std::vector<int64_t> in_flight;  // micro-batches held at once, by chunk
};

// All that is said, gathered before any of it is printed.
struct Explanation {
  plan::PlannedRecipe planned;
  int64_t parameters = 0;  // elements
  std::vector<plan::CompositionStep> composition;
  std::vector<plan::ParameterRow> rows;
  std::vector<StageSummary> stages;  // the largest peak first
  double step_time = 0;              // of a pipeline, in forward passes of a chunk
  std::vector<CollectiveRow> collectives;
  std::optional<XlaCompilation> xla;               // of backend xla: what its compiler made of the same step
  std::optional<fit::ShallowDepths> shallow = {};  // where blocks that repeat were planned once

  const recipe::Recipe& recipe() const { return planned.recipe(); }
  const plan::Plan& plan() const { return planned.plan(); }
};

void add_replicated(Explanation& e) {
  for (const plan::ParameterRow& row : e.rows)
    if (row.replicated()) e.stages[static_cast<size_t>(row.stage)].replicated_bytes += row.stored_bytes;
}

void add_stages(Explanation& e, const compile::Compiled& compiled) {
  std::vector<std::vector<blocks::Parameter>> parameters;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) parameters.push_back(compiled.parameters_of(stage));
  e.rows = plan::parameter_table(e.plan(), parameters);
  for (size_t stage = 0; stage < parameters.size(); ++stage) {
    e.stages.push_back({.stage = static_cast<int64_t>(stage),
                        .peak_bytes = compiled.stages[stage].memory.total_bytes,
                        .state = plan::state_bytes(e.plan(), parameters[stage]),
                        .in_flight = {}});
    for (const compile::StateTensor& tensor : compiled.stages[stage].state)
      if (tensor.role == ir::Role::weight_copy)
        e.stages.back().copy_bytes += compile::local_type(tensor, compiled.mesh).bytes();
  }
  add_replicated(e);
}

void add_compiled(Explanation& e, const compile::Compiled& compiled) {
  for (const blocks::Parameter& parameter : compiled.parameters) e.parameters += ir::num_elements(parameter.shape);
  add_stages(e, compiled);
  e.collectives = compile::collective_report(compiled, e.plan(), plan::changes_to(e.recipe()));
}

/// The same of a plan whose blocks were planned once.
void add_deep(Explanation& e, const fit::DeepPlan& deep) {
  e.parameters = fit::deep_parameters(deep.shallow);
  e.rows = fit::deep_parameter_table(deep.shallow);
  for (size_t stage = 0; stage < deep.compiled.stages.size(); ++stage)
    e.stages.push_back({.stage = static_cast<int64_t>(stage),
                        .peak_bytes = deep.compiled.stages[stage].memory.total_bytes,
                        .state = fit::deep_state_bytes(deep.shallow, stage),
                        .copy_bytes = fit::deep_weight_copy_bytes(deep.shallow, stage),
                        .in_flight = {}});
  add_replicated(e);
  e.collectives = fit::deep_collectives(deep.shallow);
  e.shallow = deep.shallow.depths;
}

/// Where no other compiler gets the whole program.
std::optional<fit::DeepPlan> deep_plan_of(const Explanation& e, const std::function<void(std::string_view)>& progress) {
  return fit::deep_memory_plan(e.planned, target_of(with_our_placement(e.planned)), fit::kMostPlannedWhole, progress);
}

void add_schedule(Explanation& e) {
  if (e.plan().stages == 1) return;
  const plan::Simulation simulation = plan::simulate(plan::build_schedule(
      e.plan().layout->schedule,
      {.stages = e.plan().stages, .micros = e.recipe().train.micro_steps, .chunks = e.plan().layout->virtual_stages}));
  e.step_time = simulation.makespan;
  for (size_t stage = 0; stage < e.stages.size(); ++stage) {
    e.stages[stage].idle = simulation.bubble[stage];
    e.stages[stage].in_flight = simulation.in_flight[stage];
  }
}

Explanation explain(const plan::PlannedRecipe& given, const XlaFlags& xla_flags) {
  Explanation e{.planned = {}, .composition = {}, .rows = {}, .stages = {}, .collectives = {}, .xla = {}};
  require_xla_for(xla_flags, given.recipe());
  runtime::backend_that_runs(given.recipe());
  std::optional<XlaChoice> choice;
  if (is_compiled_by_xla(given.recipe())) choice = choose_xla(given, xla_flags);
  const std::function<void(std::string_view)> progress = planning_progress();
  e.planned = settled(given, choice ? choice->tpu : std::nullopt, {});
  e.composition = plan::composition(e.plan());
  std::optional<compile::Compiled> whole;
  if (const auto deep = choice ? std::nullopt : deep_plan_of(e, progress))
    add_deep(e, *deep);
  else
    add_compiled(e, whole.emplace(compile_our_placement(e.planned, {.after_pass = progress})));
  add_schedule(e);
  std::stable_sort(e.stages.begin(), e.stages.end(),
                   [](const StageSummary& a, const StageSummary& b) { return a.peak_bytes > b.peak_bytes; });
  if (choice) {
    e.xla = compile_on_xla(*choice, e.planned, *whole);
    for (StageSummary& stage : e.stages) stage.peak_bytes = e.xla->report.needed_bytes().value_or(0);
  }
  return e;
}

// ---- Text ----

void print_header(const Explanation& e) {
  print_out("model   {}  pattern {}  depth {}  {:.2f}M parameters\n", e.recipe().name, e.recipe().model.pattern,
            e.recipe().model.depth, static_cast<double>(e.parameters) / 1e6);
  print_out("mesh    {}  chips {}\n", to_string(e.plan().parallel.mesh), e.plan().chips);
  print_out("layout  {}\n", plan::layout_line(e.plan()));
  print_out("decided {}\n", decided_text(e.planned));
  if (e.shallow) print_out("repeats {}\n", to_text(*e.shallow));
  print_out("peak    {} per chip{}\n\n", e.stages[0].peak_bytes > 0 ? human_bytes(e.stages[0].peak_bytes) : "not known",
            e.plan().stages > 1 ? fmt::format(" of stage {}, the largest", e.stages[0].stage) : "");
  write_output("Composition, in this order for every model:\n" + composition_text(e.composition));
  const std::string axes = plan::axes_text(e.plan());
  if (!axes.empty()) write_output("\nAxes of the mesh behind each dimension:\n" + axes);
}

void print_state(const Explanation& e) {
  const StageSummary& all = e.stages[0];
  print_out("{} parameters; per chip: weights {}, of which replicated {}; gradients {}; optimizer {}", e.parameters,
            human_bytes(all.state.weights), human_bytes(all.replicated_bytes), human_bytes(all.state.gradients),
            human_bytes(all.state.optimizer));
  if (all.copy_bytes > 0) print_out("; bf16 copies of weights {}", human_bytes(all.copy_bytes));
  if (all.state.kept > 0) print_out("; weights kept from forward to backward {}", human_bytes(all.state.kept));
  print_out("\n");
}

void print_stages(const Explanation& e) {
  const recipe::Layout& layout = e.plan().layout.keys();
  print_out("{} parameters. What a chip of each stage holds, the largest first:\n", e.parameters);
  TextTable table({">stage", ">peak", ">weights", ">replicated", ">bf16 copies", ">kept", ">gradients", ">optimizer",
                   ">idle", "micro-batches in flight"});
  for (const StageSummary& s : e.stages)
    table.add({std::to_string(s.stage), human_bytes(s.peak_bytes), human_bytes(s.state.weights),
               human_bytes(s.replicated_bytes), human_bytes(s.copy_bytes), human_bytes(s.state.kept),
               human_bytes(s.state.gradients), human_bytes(s.state.optimizer), fmt::format("{:.1f}%", 100 * s.idle),
               fmt::format("{}", fmt::join(s.in_flight, " + "))});
  write_output(table.to_text());
  print_out(
      "Idle by schedule {} of {} micro-batches, were all chunks alike and backward twice as long as forward: then a\n"
      "step takes {:g} forward passes.\n",
      base::text_of(layout.schedule), e.recipe().train.micro_steps, e.step_time);
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
  if (e.collectives.empty()) return print_out("\nCollectives: none.\n");
  print_out("\nCollectives: bytes one chip sends; forward and backward once per micro-step, update once per step.\n");
  const int64_t stages = e.plan().stages;
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
  write_output(table.to_text());
  print_out(
      "A chip sends {}{} per step of {}. Counted as a ring of n sends: all_gather (n-1) x its part,\n"
      "reduce_scatter and all_to_all (n-1)/n of what it has, all_reduce twice that, the others all.\n",
      stages > 1 ? "at most " : "", human_bytes(step_bytes(e.collectives, e.recipe().train.micro_steps)),
      base::counted(e.recipe().train.micro_steps, "micro-step"));
}

// ---- JSON ----

Json parameter_row_json(const plan::ParameterRow& row) {
  return {{"stage", row.stage},
          {"name", row.name},
          {"count", row.count},
          {"shape", row.shape},
          {"local", row.local},
          {"class", class_name(row)},
          {"holders", row.holders},
          {"stored", row.stored},
          {"computed", row.computed},
          {"gradient", row.gradient},
          {"optimizer", row.optimizer},
          {"group", row.group},
          {"stored_bytes", row.stored_bytes},
          {"why", row.why}};
}

Json stage_json(const StageSummary& s) {
  return {{"stage", s.stage},
          {"peak_bytes", s.peak_bytes},
          {"weight_bytes", s.state.weights},
          {"replicated_bytes", s.replicated_bytes},
          {"weight_copy_bytes", s.copy_bytes},
          {"kept_bytes", s.state.kept},
          {"gradient_bytes", s.state.gradients},
          {"optimizer_bytes", s.state.optimizer},
          {"idle_part", s.idle},
          {"micro_batches_in_flight", s.in_flight}};
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
  json["cost_bytes"] = base::record_json(row.cost_bytes);
  return json;
}

void print_explanation_json(const Explanation& e) {
  Json parameters = Json::array(), stages = Json::array(), collectives = Json::array();
  for (const plan::ParameterRow& row : e.rows) parameters.push_back(parameter_row_json(row));
  for (const StageSummary& stage : e.stages) stages.push_back(stage_json(stage));
  for (const CollectiveRow& row : e.collectives) collectives.push_back(collective_json(row));
  const StageSummary& largest = e.stages[0];
  Json json = {{"name", e.recipe().name},
               {"pattern", e.recipe().model.pattern},
               {"mesh", to_string(e.plan().parallel.mesh)},
               {"chips", e.plan().chips},
               {"layout", plan::layout_line(e.plan())},
               {"resolved_layout", resolved_layout_json(e.planned)},
               {"composition", composition_json(e.composition)},
               {"parameters", parameters},
               {"parameter_count", e.parameters},
               {"weight_bytes", largest.state.weights},
               {"replicated_bytes", largest.replicated_bytes},
               {"weight_copy_bytes", largest.copy_bytes},
               {"gradient_bytes", largest.state.gradients},
               {"optimizer_bytes", largest.state.optimizer},
               {"peak_bytes", largest.peak_bytes},
               {"stages", stages},
               {"collectives", collectives},
               {"planned_once", e.shallow ? Json(to_text(*e.shallow)) : Json()},
               {"sent_bytes_per_step", step_bytes(e.collectives, e.recipe().train.micro_steps)}};
  if (e.xla) json["xla"] = xla_json(*e.xla);
  print_json(json);
}

void print_xla(const XlaCompilation& xla, const std::string& placement) {
  print_out("\nThe same step compiled by XLA, collectives placed by {}.\n", placement);
  print_xla_report(xla);
  if (!xla.failure) print_xla_collectives(xla);
}

// ---- Features ----

int explain_features(const plan::PlannedRecipe& planned, bool json) {
  const recipe::Recipe& recipe = planned.recipe();
  const plan::Plan& plan = planned.plan();
  const runtime::Backend& backend = runtime::backend_that_runs(recipe);
  const std::vector<launch::Feature> features = launch::features_of(planned, backend);
  TextTable table({"feature", "value", "state", "why"});
  for (const launch::Feature& feature : features)
    table.add({feature.key, feature.value, std::string(base::text_of(feature.state)), feature.why});
  if (json)
    print_json({{"name", recipe.name},
                {"backend", backend.name},
                {"layout", plan::layout_line(plan)},
                {"features", base::record_json(features)}});
  else
    write_output(fmt::format("backend {}\nlayout  {}\n\n{}", backend.name, plan::layout_line(plan), table.to_text()));
  return 0;
}

int run_explain(const ExplainFlags& flags) {
  MEGACPP_REQUIRE(!flags.features || flags.xla.target.empty(), E1007,
                  {.where = "--features",
                   .got = "--target",
                   .wanted = "it alone: nothing is compiled for it",
                   .next = "leave one of the two out"});
  const plan::PlannedRecipe planned(flags.recipe->load());
  if (flags.features) return explain_features(planned, flags.json);
  const Explanation e = explain(planned, flags.xla);
  print_without_effect(without_effect(e.recipe(), flags.xla.target.empty() ? recipe::Use::run : recipe::Use::plan));
  if (flags.json) {
    print_explanation_json(e);
  } else {
    print_header(e);
    write_output("\n" + parameters_text(e.rows, e.plan()));
    e.plan().stages > 1 ? print_stages(e) : print_state(e);
    print_collectives(e);
    if (e.xla) print_xla(*e.xla, std::string(base::text_of(e.recipe().xla.placement)));
  }
  flush_output();
  if (e.xla && e.xla->failure) throw base::Error(*e.xla->failure);
  return 0;
}

}  // namespace

Command explain_command() {
  return {.name = "explain",
          .summary = "how every parameter is sharded and why, and every collective with what would remove it",
          .example =
              "megacpp explain recipes/nam52.yaml --set layout.tensor_parallel=8\n"
              "  megacpp explain recipes/nam52-tiny.yaml --backend xla --set layout.tensor_parallel=2\n"
              "  megacpp explain recipes/nam52-tiny.yaml --backend xla --features",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<ExplainFlags>();
            flags->recipe = declare_recipe_flags(app, RecipeFile::or_model);
            declare_xla_flags(app, flags->xla);
            app.add_flag("--features", flags->features,
                         "print instead what is on, limited or off in this layout on this backend, and why");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_explain(*flags); };
          }};
}

}  // namespace megacpp::cli
