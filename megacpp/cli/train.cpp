// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/cli/backend.h"
#include "megacpp/cli/chip_memory.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/launch.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/data/text_corpus.h"
#include "megacpp/ir/chip_name.h"
#include "megacpp/memory/out_of_memory.h"
#include "megacpp/memory/report.h"
#include "megacpp/recipe/print.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
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
  bool no_catalog = false;
  std::string trace;  // file; empty: none
};

std::atomic<bool> interrupted{false};

void on_interrupt(int) { interrupted.store(true); }

double compile_seconds(const compile::Compiled& compiled) {
  double seconds = 0;
  for (const compile::StageTime& stage : compiled.stages) seconds += stage.seconds;
  return seconds;
}

// Before step 0: what will run, and what it will cost.
void print_header(const recipe::Recipe& recipe, const compile::Compiled& compiled, const data::TextCorpus& corpus,
                  int threads) {
  int64_t parameters = 0;
  for (const blocks::Parameter& parameter : compiled.parameters) parameters += ir::num_elements(parameter.shape);
  fmt::print(stderr, "{}\n", recipe::print(recipe));
  fmt::print(stderr, "model      {}  pattern {}  depth {}  {:.2f}M parameters\n", recipe.name, recipe.model.pattern,
             recipe.model.depth, static_cast<double>(parameters) / 1e6);
  fmt::print(stderr, "data       {:.1f} MB from {} files\n", static_cast<double>(corpus.bytes.size()) / 1e6,
             corpus.files.size());
  if (compiled.mesh.chips() > 1)
    fmt::print(stderr, "mesh       {} chips: {}\n", compiled.mesh.chips(), ir::to_string(compiled.mesh));
  if (recipe.backend == "xla") {
    fmt::print(stderr, "compile    {:.0f} ms, now by XLA ({}, collectives placed by {})\n",
               compile_seconds(compiled) * 1e3, recipe.xla.plugin, recipe.xla.placement);
    fmt::print(stderr, "{}", runtime::plugins::to_text(xla_flags(recipe), kFlagLabel));
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

Json counters_json(const runtime::Counters& counters) {
  const auto transfers = [](const runtime::Transfers& one) { return Json{{"count", one.count}, {"bytes", one.bytes}}; };
  return {{"compiles", counters.compiles},
          {"cache_hits", counters.cache_hits},
          {"executions", counters.executions},
          {"host_syncs", counters.host_syncs},
          {"host_to_device", transfers(counters.host_to_device)},
          {"device_to_host", transfers(counters.device_to_host)}};
}

class Progress {
 public:
  Progress(const recipe::Recipe& recipe, const runtime::Executable& run)
      : recipe_(recipe), run_(run), live_(isatty(STDERR_FILENO) != 0) {}

  void operator()(const train::StepReport& report) {
    seconds_ += report.seconds;
    tokens_ += report.tokens;
    const bool is_last = report.step + 1 == recipe_.train.steps;
    const bool logged = report.step % recipe_.train.log_every == 0 || is_last;
    if (!logged && !live_) return;
    const double left =
        seconds_ / static_cast<double>(report.step + 1) * static_cast<double>(recipe_.train.steps - report.step - 1);
    const std::string line =
        fmt::format("step {:>5}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}  {:>7.0f} tok/s{}{}  {:.0f}s left",
                    report.step + 1, recipe_.train.steps, report.loss, report.grad_norm, report.learning_rate,
                    static_cast<double>(tokens_) / seconds_, peak_text(),
                    report.dropped > 0 ? fmt::format("  dropped {:.0f}", report.dropped) : "", left);
    fmt::print(stderr, "{}{}{}", live_ ? "\r\033[K" : "", line, logged ? "\n" : "");
    std::fflush(stderr);
  }

 private:
  std::string peak_text() const {
    const int64_t peak = worst_first(run_).front().memory.measured_peak_bytes;
    return peak > 0 ? "  peak " + memory::human_bytes(peak) : "";
  }

  const recipe::Recipe& recipe_;
  const runtime::Executable& run_;
  bool live_;
  double seconds_ = 0;
  int64_t tokens_ = 0;
};

void print_summary(const Flags& flags, const Launch& launch, const compile::Compiled& compiled,
                   const std::vector<train::StepReport>& reports, const runtime::Executable& run) {
  const recipe::Recipe& recipe = launch.recipe();
  const std::vector<ChipReport> chips = worst_first(run);
  const ChipReport& worst = chips.front();
  const train::Pace pace = train::pace_of(reports);
  const double rate = pace.tokens_per_second();
  const double predicted = launch.paper().time.seconds();
  if (flags.profile)
    for (const auto& [op, seconds] : run.op_seconds()) fmt::print(stderr, "{:<22} {:>9.3f} s\n", op, seconds);
  if (flags.json) {
    Json losses = Json::array();
    for (const train::StepReport& report : reports) losses.push_back(report.loss);
    Json summary = {{"name", recipe.name},
                    {"pattern", recipe.model.pattern},
                    {"steps", static_cast<int64_t>(reports.size())},
                    {"losses", losses},
                    {"tokens_per_second", rate},
                    {"path", run.path()},
                    {"compile_seconds", compile_seconds(compiled)},
                    {"xla_compile_seconds", run.counters().compile_seconds},
                    {"counters", counters_json(run.counters())},
                    {"flops_per_micro_step", compiled.flops_per_step() / static_cast<double>(recipe.train.micro_steps)},
                    {"planned_peak_bytes", worst.memory.planned_peak_bytes},
                    {"measured_peak_bytes", worst.memory.measured_peak_bytes},
                    {"peak_chip", ir::chip_name(worst.chip, compiled.mesh)},
                    {"chips", to_json(chips, compiled.mesh)},
                    {"rung", static_cast<int64_t>(launch.rung())},
                    {"changes", fit::to_text(launch.changes())},
                    {"changes_experiment", launch.changes_experiment()},
                    {"step_seconds", pace.step_seconds() ? Json(*pace.step_seconds()) : Json()},
                    {"predicted_step_seconds", predicted > 0 ? Json(predicted) : Json()},
                    {"fallbacks", static_cast<int64_t>(compiled.fallbacks.size())}};
    if (recipe.backend == "xla") summary["xla_flags"] = from_base(runtime::plugins::to_json(xla_flags(recipe)));
    print_json(summary);
    return;
  }
  if (reports.empty()) return;
  const std::string where =
      run.chips() > 1 ? fmt::format(" (the worst: {})", ir::chip_name(worst.chip, compiled.mesh)) : "";
  const std::string measured = worst.memory.measured_peak_bytes > 0
                                   ? fmt::format("{} bytes measured", worst.memory.measured_peak_bytes)
                                   : "not measured by this plugin";
  fmt::print("{}: {} steps, loss {:.4f} -> {:.4f}, {:.0f} tokens/s, peak {}, {} planned{}\n", recipe.name,
             reports.size(), reports.front().loss, reports.back().loss, rate, measured, worst.memory.planned_peak_bytes,
             where);
  if (const auto seconds = pace.step_seconds(); seconds && predicted > 0)
    fmt::print("a step took {}, {} predicted ({:+.0f} %)\n", human_seconds(*seconds), human_seconds(predicted),
               100 * (predicted / *seconds - 1));
}

// XLA shows neither what its nodes compute nor when: said before anything is compiled.
void refuse_what_xla_hides(const Flags& flags) {
  const char* flag = flags.check_nans ? "--check-nans" : flags.profile ? "--profile" : "--trace";
  MEGACPP_REQUIRE(!flags.check_nans && !flags.profile && flags.trace.empty(), E1505,
                  {.where = flag,
                   .got = "backend xla, which runs a whole step as one program",
                   .wanted = "a backend that runs one op after the other",
                   .next = "leave it out, or set backend: cpu"});
}

// One try: loads what the launch settled on and trains it to the end.
int train_once(const Flags& flags, const data::TextCorpus& corpus, Launch& launch) {
  const recipe::Recipe& recipe = launch.recipe();
  const int threads = threads_for(recipe);
  const plan::Plan& plan = launch.paper().plan;
  const data::Batches batches(corpus, train::batch_options(recipe));
  // What was compiled on paper is what the CPU backend runs; XLA gets its own form of it.
  std::optional<compile::Compiled> for_xla;
  if (recipe.backend == "xla")
    for_xla = compile::compile_training(recipe, plan, target_for(recipe, plan.parallel.mesh));
  const compile::Compiled& compiled = for_xla ? *for_xla : launch.paper().compiled;
  print_header(recipe, compiled, corpus, threads);
  const auto run = load_for(recipe, compiled,
                            {.threads = threads,
                             .profile = flags.profile,
                             .trace_steps = flags.trace.empty() ? 0 : train::kTracedSteps,
                             .wait_limit = std::chrono::seconds(recipe.train.wait_limit)});
  if (recipe.backend == "xla") print_loaded(*run);
  train::confirm_start(plan, compiled, *run);
  train::RunState(compiled, *run).initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  Progress progress(recipe, *run);
  const auto reports = train::train(recipe, compiled, batches, *run, {.check_nans = flags.check_nans},
                                    {.after_step = [&](const train::StepReport& report) { progress(report); },
                                     .should_stop = [] { return interrupted.load(); }});
  launch.record_success(*run, train::pace_of(reports).step_seconds());
  print_summary(flags, launch, compiled, reports, *run);
  if (!flags.trace.empty())
    base::write_file_atomically(flags.trace, train::to_chrome_trace(train::traces_of(*run, compiled.mesh)));
  if (!interrupted.load()) return 0;
  fmt::print(stderr, "interrupted after {} steps\n", reports.size());
  return base::kInterruptedStatus;
}

int run_train(const Flags& flags) {
  const recipe::Recipe recipe = flags.recipe->load();
  if (recipe.backend == "xla") refuse_what_xla_hides(flags);
  plan::make_plan(recipe);  // before the text is read: a bad layout costs no time
  const data::TextCorpus corpus = data::load_text(recipe.data.text);
  Launch launch(recipe, !flags.no_catalog);
  launch.prepare();
  std::signal(SIGINT, on_interrupt);
  for (;;) {
    try {
      return train_once(flags, corpus, launch);
    } catch (const memory::OutOfMemory& failure) {
      launch.record_failure(failure);
      if (!Launch::in_window(failure)) throw;
      launch.climb_down(failure);
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
            app.add_flag("--no-catalog", flags->no_catalog, "neither ask nor tell the catalog of launches");
            app.add_option("--trace", flags->trace,
                           "write a timeline of the first steps: chrome://tracing, ui.perfetto.dev");
            return [flags] { return run_train(*flags); };
          }};
}

}  // namespace megacpp::cli
