// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/train_start.h"

#include <fmt/format.h>

#include "megacpp/cli/train_report.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/launch/over_processes.h"

namespace megacpp::cli {
namespace {

using memory::human_bytes;

std::string model_line(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  int64_t parameters = 0;
  for (const blocks::Parameter& parameter : compiled.parameters) parameters += ir::num_elements(parameter.shape);
  return fmt::format("model      {}, pattern {}, depth {}, hidden {}, {:.2f}M parameters\n",
                     base::printable_in_line(recipe.name), recipe.model.pattern, recipe.model.depth,
                     recipe.model.hidden, static_cast<double>(parameters) / 1e6);
}

std::string layout_line(const launch::Launch& launch, const ir::Mesh& mesh) {
  const std::string chips =
      mesh.chips() > 1 ? fmt::format("{} chips: {}", mesh.chips(), ir::to_string(mesh)) : "1 chip";
  const std::string changes = launch.changes().empty() ? "" : ", with " + fit::to_text(launch.changes());
  return fmt::format("layout     {}; {}{}\n", fit::layout_text(launch.recipe()), chips, changes);
}

// The worst chip, and where it is.
std::string plan_line(const launch::Launch& launch) {
  const fit::Estimate& estimate = launch.estimate();
  const fit::ChipGroup& worst = estimate.fit.worst();
  const std::string host =
      launch::host_text(launch::process_places(estimate.plan().parallel.mesh, launch.agreement().hosts()), worst.chip);
  const double seconds = estimate.time.seconds();
  const catalog::Correction& correction = estimate.correction;
  const std::string corrected = correction.samples == 0 ? ""
                                                        : fmt::format(" (corrected by {} measured, {} of this build)",
                                                                      correction.samples, correction.own_samples);
  const bool is_close = estimate.fit.verdict() == fit::FitVerdict::close;
  return fmt::format("plan       {}{} needs {}{}{}{}{}\n", worst.place, host, fit::needed_text(worst),
                     worst.limit.bytes ? " of " + human_bytes(*worst.limit.bytes) : ", no limit known",
                     is_close ? ", which is close: the compiler decides" : "", corrected,
                     seconds > 0 ? ", a step takes " + base::human_seconds(seconds) + " as predicted" : "");
}

std::string backend_lines(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  const runtime::RunSettings settings = backend.settings(recipe::run_request(recipe));
  // What a backend's own compiler takes apart is no fallback.
  const std::string fallbacks =
      backend.emits_stablehlo ? "" : ", " + base::counted(std::ssize(compiled.fallbacks), "fallback");
  return fmt::format("backend    {}, {}, compiled in {:.0f} ms, verified in {:.0f} ms{}\n", backend.name, settings.text,
                     compiled.compile_seconds() * 1e3, compiled.verify_seconds() * 1e3, fallbacks) +
         settings.lines;
}

std::string recompute_line(const fit::Estimate& estimate) {
  return estimate.recompute.empty() ? "" : fmt::format("recompute  {}\n", fit::to_text(estimate.recompute));
}

std::string loops_line(const fit::Estimate& estimate) {
  const std::string loops = fit::loops_text(estimate);
  return loops.empty() ? "" : fmt::format("blocks     {}\n", loops);
}

std::string schedule_line(const recipe::Recipe& recipe) {
  const recipe::Train& train = recipe.train;
  return fmt::format("schedule   {} of {} x {} tokens, micro-steps {}, {}; {}, lr {:.2e} {}\n",
                     base::counted(train.steps, "step"), train.batch, train.sequence, train.micro_steps,
                     ir::dtype_name(train.precision), recipe.optimizer.name, recipe.optimizer.lr,
                     recipe.optimizer.schedule);
}

std::string checkpoint_line(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  const recipe::Checkpoint& checkpoint = recipe.checkpoint;
  if (!checkpoint.saves()) return "checkpoint none: checkpoint.every is -1\n";
  const std::string often = checkpoint.every > 1    ? fmt::format("every {} steps and ", checkpoint.every)
                            : checkpoint.every == 1 ? "every step and "
                                                    : "";
  return fmt::format("checkpoint {}the last step; the newest {} stay; a snapshot takes {} of host memory\n", often,
                     checkpoint.keep > 0 ? std::to_string(checkpoint.keep) : "and all others",
                     human_bytes(compile::kept_bytes(compiled)));
}

}  // namespace

std::string start_text(const launch::Launch& launch, const compile::Compiled& compiled,
                       const data::TokenSource& source) {
  const recipe::Recipe& recipe = launch.recipe();
  return model_line(recipe, compiled) + layout_line(launch, compiled.mesh) +
         fmt::format("hardware   {}\n", launch.estimate().signature.hardware) + plan_line(launch) +
         recompute_line(launch.estimate()) + loops_line(launch.estimate()) + backend_lines(recipe, compiled) +
         fmt::format("data       {}\n", base::printable_in_line(source.describe())) + schedule_line(recipe) +
         checkpoint_line(recipe, compiled);
}

std::string places_text(launch::Launch& launch, const ir::Mesh& mesh) {
  const std::string processes = launch::processes_text(mesh);
  if (processes.empty()) return "";
  const std::string hosts = launch::hosts_text(launch::process_places(mesh, launch.agreement().hosts()));
  return fmt::format("processes  {}\nhosts      {}\n", processes, base::printable_in_line(hosts));
}

std::string verbose_text(const launch::Launch& launch, const compile::Compiled& compiled) {
  return recipe::print(launch.recipe()) + "\n" + memory::to_text(compiled.largest().memory) + "\n";
}

std::string loaded_text(const recipe::Recipe& recipe, const runtime::Executable& run) {
  std::string text;
  for (const std::string& note : run.load_notes())
    text += fmt::format("{:<10} {}\n", recipe.backend, base::printable_in_line(note));
  if (!is_compiled_by_xla(recipe)) return text;
  const runtime::Counters counters = run.counters();
  for (const auto& [cause, count] : counters.compiles)
    text += fmt::format("{:<10} compiled in {:.1f} s ({})\n", recipe.backend, counters.compile_seconds, cause);
  if (counters.cache_hits > 0) text += fmt::format("{:<10} compiled before, loaded from the cache\n", recipe.backend);
  return text + fmt::format("           {}\n", run.path());
}

}  // namespace megacpp::cli
