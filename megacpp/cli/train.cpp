// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/train_report.h"
#include "megacpp/cli/xla_report.h"
#include "megacpp/data/text_corpus.h"
#include "megacpp/launch/chip_memory.h"
#include "megacpp/launch/launch.h"
#include "megacpp/memory/out_of_memory.h"
#include "megacpp/memory/report.h"
#include "megacpp/recipe/print.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/xla_backend.h"
#include "megacpp/train/confirm_start.h"
#include "megacpp/train/pace.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/trace.h"

namespace megacpp::cli {
namespace {

struct Flags {
  std::shared_ptr<RecipeFlags> recipe;
  bool json = false;
  bool check_nans = false;
  bool profile = false;
  launch::CatalogChoice catalog;
  std::string trace;  // file; empty: none
};

std::atomic<bool> interrupted{false};

void on_interrupt(int) { interrupted.store(true); }

// Before step 0: what will run, and what it will cost.
void print_header(const fit::Estimate& estimate, const compile::Compiled& compiled, const data::TextCorpus& corpus,
                  int threads) {
  const recipe::Recipe& recipe = estimate.recipe;
  int64_t parameters = 0;
  for (const blocks::Parameter& parameter : compiled.parameters) parameters += ir::num_elements(parameter.shape);
  fmt::print(stderr, "{}\n", recipe::print(recipe));
  fmt::print(stderr, "model      {}  pattern {}  depth {}  {:.2f}M parameters\n", recipe.name, recipe.model.pattern,
             recipe.model.depth, static_cast<double>(parameters) / 1e6);
  fmt::print(stderr, "data       {:.1f} MB from {} files\n", static_cast<double>(corpus.bytes.size()) / 1e6,
             corpus.files.size());
  if (!estimate.recompute.empty()) fmt::print(stderr, "recompute  {}\n", fit::to_text(estimate.recompute));
  if (compiled.mesh.chips() > 1)
    fmt::print(stderr, "mesh       {} chips: {}\n", compiled.mesh.chips(), ir::to_string(compiled.mesh));
  if (recipe.backend == "xla") {
    fmt::print(stderr, "compile    {:.0f} ms, now by XLA ({}, collectives placed by {})\n",
               compile_seconds(compiled) * 1e3, recipe.xla.plugin, recipe.xla.placement);
    fmt::print(stderr, "{}", runtime::plugins::to_text(runtime::xla_flags(recipe), kFlagLabel));
    return;
  }
  fmt::print(stderr, "compile    {:.0f} ms, {} fallbacks; cpu, {} threads\n", compile_seconds(compiled) * 1e3,
             compiled.fallbacks.size(), threads);
  fmt::print(stderr, "{}\n", memory::to_text(compiled.largest().memory));
}

// What the plugin did with the program: compiled it, and why, or found it compiled.
void print_loaded(const runtime::Executable& run) {
  const runtime::Counters counters = run.counters();
  for (const auto& [cause, count] : counters.compiles)
    fmt::print(stderr, "xla        compiled in {:.1f} s ({})\n", counters.compile_seconds, cause);
  if (counters.cache_hits > 0) fmt::print(stderr, "xla        compiled before, loaded from the cache\n");
  fmt::print(stderr, "           {}\n", run.path());
}

// A line for each step that is logged, with the rate since the line before; the first step warms caches and has none.
class Progress {
 public:
  Progress(const recipe::Recipe& recipe, const runtime::Executable& run) : recipe_(recipe), run_(run) {}

  void operator()(const train::StepReport& report) {
    const bool is_warm = report.step > 0;
    const double left =
        report.seconds / static_cast<double>(report.steps) * static_cast<double>(recipe_.train.steps - report.step - 1);
    fmt::print(stderr, "step {:>5}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}{}{}{}{}\n", report.step + 1,
               recipe_.train.steps, report.loss, report.grad_norm, report.learning_rate,
               is_warm ? fmt::format("  {:>7.0f} tok/s", static_cast<double>(report.tokens) / report.seconds) : "",
               peak_text(), report.dropped > 0 ? fmt::format("  dropped {:.0f}", report.dropped) : "",
               is_warm ? fmt::format("  {:.0f}s left", left) : "");
    std::fflush(stderr);
  }

 private:
  std::string peak_text() const {
    const std::optional<int64_t> peak = launch::worst_first(run_).front().memory.measured_peak_bytes;
    return peak ? "  peak " + memory::human_bytes(*peak) : "";
  }

  const recipe::Recipe& recipe_;
  const runtime::Executable& run_;
};

void print_summary(const Flags& flags, const TrainedRun& trained) {
  if (flags.profile)
    for (const auto& [op, seconds] : trained.run.op_seconds()) fmt::print(stderr, "{:<22} {:>9.3f} s\n", op, seconds);
  if (flags.json)
    print_json(train_json(trained));
  else
    fmt::print("{}", train_text(trained));
}

// What runs a step as one program shows neither what its nodes compute nor when: said before anything is compiled.
void refuse_what_is_hidden(const Flags& flags, const runtime::Backend& backend) {
  if (backend.runs_node_by_node) return;
  const char* flag = flags.check_nans ? "--check-nans" : flags.profile ? "--profile" : "--trace";
  MEGACPP_REQUIRE(!flags.check_nans && !flags.profile && flags.trace.empty(), E1505,
                  {.where = flag,
                   .got = "backend " + backend.name + ", which runs a whole step as one program",
                   .wanted = "a backend that runs one op after the other",
                   .next = "leave it out, or set backend: cpu"});
}

// One try: loads what the launch settled on and trains it to the end.
int train_once(const Flags& flags, const data::TextCorpus& corpus, launch::Launch& launch) {
  const recipe::Recipe& recipe = launch.recipe();
  const int threads = runtime::threads_for(recipe);
  const plan::Plan& plan = launch.estimate().plan;
  const data::Batches batches(corpus, train::batch_options(recipe));
  // What was compiled on paper is what the CPU backend runs; XLA gets its own form of it.
  std::optional<compile::Compiled> for_xla;
  if (recipe.backend == "xla")
    for_xla = compile::compile_training(recipe, plan, runtime::target_for(recipe, plan.parallel.mesh));
  const compile::Compiled& compiled = for_xla ? *for_xla : launch.estimate().compiled;
  print_header(launch.estimate(), compiled, corpus, threads);
  runtime::LoadOptions options = runtime::load_options(recipe, compiled.mesh.chips());
  options.profile = flags.profile;
  options.trace_steps = flags.trace.empty() ? 0 : train::kTracedSteps;
  const auto run = runtime::load_for(recipe, compiled, options);
  if (recipe.backend == "xla") print_loaded(*run);
  train::confirm_start(plan, compiled, *run);
  train::RunState(compiled, *run).initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  Progress progress(recipe, *run);
  const auto reports = train::train(recipe, compiled, batches, *run, {.check_nans = flags.check_nans},
                                    {.after_log = [&](const train::StepReport& report) { progress(report); },
                                     .should_stop = [] { return interrupted.load(); }});
  if (!reports.empty()) launch.record_success(*run, train::pace_of(reports).step_seconds());
  print_summary(flags, {launch, compiled, reports, *run});
  if (!flags.trace.empty())
    base::write_file_atomically(flags.trace, train::to_chrome_trace(train::traces_of(*run, compiled.mesh)));
  if (!interrupted.load()) return 0;
  fmt::print(stderr, "interrupted after {} steps\n", train::steps_in(reports));
  return base::kInterruptedStatus;
}

int run_train(const Flags& flags) {
  const recipe::Recipe recipe = flags.recipe->load();
  refuse_what_is_hidden(flags, runtime::backend_named(recipe.backend));
  plan::make_plan(recipe);  // before the text is read: a bad layout costs no time
  const data::TextCorpus corpus = data::load_text(recipe.data.text);
  launch::Launch launch(recipe, flags.catalog);
  launch.prepare();
  std::signal(SIGINT, on_interrupt);
  for (;;) {
    try {
      return train_once(flags, corpus, launch);
    } catch (const memory::OutOfMemory& failure) {
      launch.record_failure(failure);
      if (!launch::Launch::in_window(failure)) throw;
      launch.step_down(failure);
    }
  }
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .summary = "train a recipe on this machine",
          .example = "megacpp train recipes/nam56r-tiny.yaml --set train.steps=20",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<Flags>();
            flags->recipe = declare_recipe_flags(app);
            app.add_flag("--json", flags->json, "print the summary and every loss as JSON");
            app.add_flag("--check-nans", flags->check_nans, "when the loss is not finite, name the op that made it so");
            app.add_flag("--profile", flags->profile, "print seconds per op at the end");
            declare_catalog_flags(app, flags->catalog, "ask or tell it");
            app.add_option("--trace", flags->trace,
                           "write a timeline of the first steps: chrome://tracing, ui.perfetto.dev");
            return [flags] { return run_train(*flags); };
          }};
}

}  // namespace megacpp::cli
