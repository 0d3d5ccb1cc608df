// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/train.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/given_flags.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/pass_flags.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/train_from.h"
#include "megacpp/cli/train_progress.h"
#include "megacpp/cli/train_report.h"
#include "megacpp/cli/train_start.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/core/base/timed_part.h"
#include "megacpp/evidence/metrics/run_exports.h"
#include "megacpp/evidence/receipt/recorder.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/long_wait.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/checkpoint/tokenizer_files.h"
#include "megacpp/run/data/open_source.h"
#include "megacpp/run/launch/features.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/run_data.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/run_inputs.h"
#include "megacpp/run/launch/training.h"
#include "megacpp/run/lineage/lineage.h"
#include "megacpp/run/train/load_state.h"
#include "megacpp/run/train/trace.h"

namespace megacpp::cli {
namespace {

struct TrainFlags {
  std::shared_ptr<RecipeFlags> recipe;
  bool json = false;
  bool check_nans = false;
  bool profile = false;
  bool verbose = false;
  std::vector<std::string> without;  // passes
  launch::CatalogChoice catalog;
  std::string trace;  // file; empty: none
  metrics::ExportChoice exports;
  std::string run_dir;
  std::optional<std::string> resume;  // a run directory, a checkpoint or "latest"
  bool allows_changed_data = false;   // of a run that goes on
  std::string from;                   // a Hugging Face folder, or as `resume`; empty: weights are drawn
  launch::GivenFlags given = {};      // all of them
};

/// What is trained, and from where on.
struct Request {
  recipe::Recipe recipe;
  std::filesystem::path recipe_file;              // it was read from
  std::optional<launch::RunDirectory> directory;  // of a run that goes on; a new one is made by open_inputs()
  std::optional<checkpoint::Reader> checkpoint;
  std::optional<WeightSource> from;  // of a new run
};

// Threads of chips that hang cannot be ended alone, nor can the start of MPI, and nothing that waits for them would
// end.
void end_process(const base::Error& error) {
  write_message("error " + std::string(error.what()) + "\n");
  ::_exit(error.exit_status());
}

// All processes do, first of all: those that go on with a run before they have its recipe, which the first one finds.
void agree_on_command(const TrainFlags& flags, const recipe::Train& train) {
  launch::agree_on_command(launch::flag_fields(flags.given), std::chrono::seconds(train.wait_limit), end_process);
}

// What is known of it before the recipe is.
recipe::Train train_of_flags(const TrainFlags& flags) {
  std::vector<std::string> limits;
  std::ranges::copy_if(flags.recipe->overrides, std::back_inserter(limits),
                       [](const std::string& override) { return override.starts_with("train.wait_limit="); });
  recipe::Recipe recipe;
  recipe::apply_overrides(recipe, limits);
  return recipe.train;
}

// The first process finds and locks the run; the others read what it has found.
Request found_run(const TrainFlags& flags) {
  Request request{.recipe = {}, .recipe_file = {}, .directory = {}, .checkpoint = {}, .from = {}};
  const std::string found = launch::from_first_process("run that goes on", [&] {
    const launch::FoundCheckpoint point = launch::find_resume_point(*flags.resume);
    request.directory.emplace(launch::RunDirectory::open(point.run));
    return point.run.string() + '\0' + point.checkpoint.string();
  });
  const size_t end = found.find('\0');
  const std::filesystem::path run = found.substr(0, end), checkpoint = found.substr(end + 1);
  request.recipe_file = launch::recipe_file_of(run);
  request.recipe = recipe::load(request.recipe_file, flags.recipe->overrides);
  request.checkpoint.emplace(checkpoint);
  return request;
}

Request resume_request(const TrainFlags& flags) {
  MEGACPP_REQUIRE(flags.recipe->file.empty() && flags.run_dir.empty() && flags.from.empty(), E1007,
                  {.where = "--resume",
                   .got = !flags.recipe->file.empty() ? flags.recipe->file
                          : flags.from.empty()        ? "--run-dir"
                                                      : "--from",
                   .wanted = "the run directory alone: its recipe and its weights are stored there",
                   .next = "leave it out; change keys with --set"});
  Request request = found_run(flags);
  train::require_same_model(request.checkpoint->manifest(), request.recipe);
  return request;
}

Request new_request(const TrainFlags& flags) {
  MEGACPP_REQUIRE(
      !flags.recipe->file.empty(), E1007,
      {.where = "train", .got = "no recipe", .wanted = "a recipe, or --resume", .next = "run: megacpp train --help"});
  const std::filesystem::path file = flags.recipe->file;
  if (flags.from.empty())
    return {.recipe = flags.recipe->load(), .recipe_file = file, .directory = {}, .checkpoint = {}, .from = {}};
  WeightSource from = open_weight_source(flags.from);
  recipe::Recipe recipe = recipe::load_around(from.model, flags.recipe->file, flags.recipe->overrides);
  return {.recipe = std::move(recipe), .recipe_file = file, .directory = {}, .checkpoint = {}, .from = std::move(from)};
}

void print_summary(const TrainFlags& flags, const TrainedRun& trained) {
  if (flags.profile) {
    for (const runtime::OpSeconds& op : trained.run().op_seconds())
      print_err("{:<12} {:<20} {:>10.3f} ms a step\n", op.program, op.op, 1e3 * op.seconds);
    write_message(parts_text(trained));
  }
  if (flags.json)
    print_json(train_json(trained));
  else
    write_output(train_text(trained));
}

// What runs a step as one program shows neither what its nodes compute nor when: said before anything is compiled.
void refuse_what_is_hidden(const TrainFlags& flags, const runtime::Backend& backend) {
  const base::Decision shown = launch::shows_nodes(backend);
  if (shown) return;
  const char* flag = flags.check_nans ? "--check-nans" : flags.profile ? "--profile" : "--trace";
  MEGACPP_REQUIRE(!flags.check_nans && !flags.profile && flags.trace.empty(), E1505,
                  {.where = flag,
                   .got = shown.reason(),
                   .wanted = "a backend that runs one op after the other",
                   .next = "leave it out, or set backend: cpu"});
}

// How long a step takes without a pass, and what memory, says nothing about the recipe's usual programs.
launch::CatalogChoice catalog_for(const TrainFlags& flags) {
  if (flags.without.empty()) return flags.catalog;
  const std::string without = fmt::format("{}", fmt::join(flags.without, ", "));
  print_err("passes     without {}; nothing is remembered of this run\n", without);
  return {.none = true};
}

/// What goes on beside the steps.
struct Running {
  metrics::RunExports exports;
  // Of a run that is loaded.
  std::optional<TrainProgress> progress = {};
  std::optional<base::StopRequest> stop = {};  // none before: planning and loading are stopped at once
};

// By whichever process waits: it knows for whom.
void print_long_wait(const collectives::LongWait& wait) {
  print_err("waiting    {} s for {}\n", std::chrono::round<std::chrono::seconds>(wait.waited).count(), wait.whom);
}

void print_silent(const std::string& process) { print_err("stopping   {} does not answer\n", process); }

int64_t traced_steps(const TrainFlags& flags) { return flags.trace.empty() ? 0 : train::kTracedSteps; }

launch::TrainingOptions options_for(const TrainFlags& flags, const data::TokenSource& source, launch::Launch& launch,
                                    Running& running) {
  launch::StartOptions start{.without = flags.without,
                             .profile = flags.profile,
                             .trace_steps = traced_steps(flags),
                             .on_hang = end_process,
                             .before_load =
                                 [&](const compile::Compiled& compiled) {
                                   if (flags.verbose) write_message(verbose_text(launch, compiled));
                                   write_message(start_text(launch, compiled, source));
                                   write_message(places_text(launch, compiled.mesh));
                                 },
                             .after_load =
                                 [&](const runtime::Executable& run) {
                                   if (!running.stop) running.stop.emplace();
                                   running.progress.emplace(launch.recipe());
                                   write_message(loaded_text(launch.recipe(), run));
                                 }};
  return {.start = std::move(start),
          .check_nans = flags.check_nans,
          .after_log =
              [&](const train::StepReport& report) {
                running.exports.add(report);
                (*running.progress)(report);
              },
          .should_stop = [&] { return running.stop->has_come(); },
          .on_silent = print_silent};
}

void print_directory(const Request& request, const TrainFlags& flags, const launch::Launch& launch) {
  std::string start;
  if (request.checkpoint)
    start = fmt::format(", goes on after step {} of {}", request.checkpoint->manifest().position.step,
                        launch.recipe().train.steps);
  if (request.from) start = ", starts with the weights of " + flags.from;
  print_err("run        {}{}\n", request.directory->path().string(), start);
}

// What runs, at the rung where it runs; a run that cannot go on leaves the files of its directory as they are.
void write_what_runs(const Request& request, launch::Launch& launch, const data::TokenSource& source) {
  const launch::RunDirectory& directory = *request.directory;
  if (request.from) checkpoint::copy_tokenizer_files(request.from->folder, directory.path());
  directory.write_recipe(recipe::print(launch.recipe()));
  directory.write_plan(base::to_text(run_plan_json(launch), 2));
  directory.write_data(launch::data_text(source));
  const lineage::Lineage& lineage = launch.lineage();
  if (!lineage.lock_file.empty() && lineage.unread.empty()) directory.keep_lock(lineage.lock_file);
}

int64_t first_step_of(const Request& request) {
  return request.checkpoint ? request.checkpoint->manifest().position.step : 0;
}

receipt::Recorder recorder_for(const Request& request, const TrainFlags& flags, const launch::Launch& launch,
                               const data::TokenSource& source) {
  receipt::RunFacts facts{.data = source.describe(), .without = flags.without};
  return receipt::Recorder(launch, request.directory->path(), std::move(facts), first_step_of(request));
}

// Each makes steps slower.
std::vector<std::string> watched_by(const launch::TrainingOptions& options) {
  std::vector<std::string> names;
  if (options.check_nans) names.emplace_back("check-nans");
  if (options.start.profile) names.emplace_back("profile");
  if (options.start.trace_steps > 0) names.emplace_back("trace");
  return names;
}

launch::Trained train_recorded(launch::Launch& launch, const data::TokenSource& source,
                               const launch::TrainingOptions& options, receipt::Recorder& recorder) {
  recorder.watch(watched_by(options));
  try {
    launch::Trained trained = launch::run_training(launch, source, options);
    recorder.finish(trained);
    return trained;
  } catch (const std::exception& error) {
    recorder.fail(error);
    throw;
  }
}

// A launch that nothing fits for leaves its receipt too, with every reduction that was tried.
void prepare(launch::Launch& launch, Request& request, const TrainFlags& flags, const data::TokenSource& source) {
  try {
    launch.prepare();
  } catch (const memory::OutOfMemory& failure) {
    if (!launch.is_planned() || request.checkpoint) throw;
    try {
      print_directory(request, flags, launch);
      recorder_for(request, flags, launch, source).fail(failure);
    } catch (const base::Error& error) {
      print_err("receipt    not written: {}: {}\n", error.problem().where, error.problem().got);
    }
    throw;
  }
}

// What the chips of every process did; empty where nobody asked for it.
std::string trace_of_all(const TrainFlags& flags, launch::Launch& launch, const launch::Trained& trained) {
  if (flags.trace.empty()) return "";
  const launch::StartedRun& started = trained.started;
  return train::to_chrome_trace(
      launch.agreement().of_all("trace", train::chrome_events(train::traces_of(*started.run, started.compiled->mesh))));
}

// Samples go on where the run stopped: in other data they would be others, of which some may have been seen.
void check_data(const std::filesystem::path& run, const data::TokenSource& source, bool allows_changes) {
  if (!allows_changes) return launch::require_same_data(run, source);
  if (const std::optional<std::string> change = launch::changed_data(run, source))
    print_line({.topic = "data", .text = "other than the run had so far: " + *change});
}

// On every process, or none goes on. The first one has the run directory from here on: a folder that cannot be written,
// or that another process trains in, costs no time, and who supervises the run sees that it has begun.
std::unique_ptr<data::TokenSource> open_inputs(Request& request, const TrainFlags& flags) {
  const recipe::Recipe& recipe = request.recipe;
  std::unique_ptr<data::TokenSource> source;
  launch::on_all_processes("data and run directory", std::chrono::seconds(recipe.train.wait_limit), [&] {
    if (!request.directory && launch::is_first_process())
      request.directory.emplace(launch::RunDirectory::create(flags.run_dir, recipe.name));
    source = data::open_source(recipe.data);
    if (request.checkpoint && launch::is_first_process())
      check_data(request.directory->path(), *source, flags.allows_changed_data);
  });
  return source;
}

void start_from(const Request& request, launch::TrainingOptions& options) {
  options.checkpoint = request.checkpoint ? &*request.checkpoint : nullptr;
  if (!request.from) return;
  options.start.fill_state = request.from->load;
  options.weights = request.from->digests;
}

// A process that is not the first works on its chips; what is printed and written is the first one's.
int follow_first(const TrainFlags& flags, Request& request) {
  const std::unique_ptr<data::TokenSource> source = open_inputs(request, flags);
  launch::Launch launch(request.recipe, {.none = true}, launch::no_log,
                        {.transport = launch::transport_for(request.recipe)});
  launch.check_lineage(request.recipe_file);
  launch.prepare();
  std::optional<base::StopRequest> stop;
  launch::TrainingOptions options;
  options.start.without = flags.without;
  options.start.after_load = [&stop](const runtime::Executable&) {
    if (!stop) stop.emplace();
  };
  options.start.trace_steps = traced_steps(flags);
  options.start.on_hang = end_process;
  options.check_nans = flags.check_nans;
  options.should_stop = [&stop] { return stop->has_come(); };
  options.on_silent = print_silent;
  start_from(request, options);
  const launch::Trained trained = launch::run_training(launch, *source, options);
  trace_of_all(flags, launch, trained);
  return trained.was_stopped ? base::kInterruptedStatus : 0;
}

int run_train(const TrainFlags& flags) {
  base::PartClock clock;
  collectives::listen_to_long_waits(print_long_wait);
  if (flags.resume) agree_on_command(flags, train_of_flags(flags));
  Request request = flags.resume ? resume_request(flags) : new_request(flags);
  const recipe::Recipe& recipe = request.recipe;
  launch::require_over_processes(recipe);
  refuse_what_is_hidden(flags, runtime::backend_named(recipe.backend));
  runtime::backend_that_runs(recipe);
  const bool is_first = launch::is_first_process();
  if (!flags.trace.empty() && is_first) base::require_writable(flags.trace);
  plan::check_layout(recipe, plan::Adjustable::recipe);  // before the text is read: a bad layout costs no time
  if (!flags.resume) agree_on_command(flags, recipe.train);
  if (!is_first) return follow_first(flags, request);
  Running running{metrics::RunExports(flags.exports, print_line)};  // a port that is taken costs no time
  print_without_effect(without_effect(recipe));
  clock.lap("recipe");
  const std::unique_ptr<data::TokenSource> source = open_inputs(request, flags);
  clock.lap("data");
  launch::Launch launch(recipe, catalog_for(flags), print_line, {.transport = launch::transport_for(recipe)});
  launch.check_lineage(request.recipe_file);
  prepare(launch, request, flags, *source);
  clock.lap("plan");
  print_directory(request, flags, launch);
  receipt::Recorder recorder = recorder_for(request, flags, launch, *source);
  launch::TrainingOptions options = options_for(flags, *source, launch, running);
  options.directory = &*request.directory;
  start_from(request, options);
  options.before_steps = [&](const launch::StartedRun& started) {
    clock.add(started.parts);
    const std::vector<base::TimedPart> parts = clock.all();
    print_err("start      {}\n", base::to_text(parts));
    recorder.begin(parts);
    write_what_runs(request, launch, *source);
    running.exports.begin(request.directory->path(), first_step_of(request));
  };
  const launch::Trained trained = train_recorded(launch, *source, options, recorder);
  print_summary(flags, {launch, trained, *request.directory, recorder.seconds()});
  if (const std::string trace = trace_of_all(flags, launch, trained); !trace.empty())
    base::write_file_atomically(flags.trace, trace);
  if (!trained.was_stopped) return 0;
  const std::string next = recipe.checkpoint.saves()
                               ? "go on with: megacpp train --resume " + request.directory->path().string()
                               : "nothing was saved, since checkpoint.every is -1";
  const int64_t done = std::max(trained.first_step, train::steps_in(trained.reports));
  print_err("stopped after {}; {}\n", base::counted(done, "step"), next);
  return base::kInterruptedStatus;
}

}  // namespace

Command train_command() {
  return {.name = "train",
          .summary = "train a recipe on this machine",
          .example =
              "megacpp train recipes/nam56r-tiny.yaml --set train.steps=20\n"
              "  megacpp train --resume latest --set train.steps=40\n"
              "  megacpp train adapt.yaml --from path/to/model\n"
              "  megacpp train recipes/nam56r-tiny.yaml --tensorboard --metrics-port 9400",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<TrainFlags>();
            flags->recipe = declare_recipe_flags(app, RecipeFile::optional);
            declare_written_path(
                app, "--run-dir", flags->run_dir,
                "folder of this run: recipe, plan, log, checkpoints; without: NAME-TIME in runs, or in the "
                "folder that MEGACPP_RUNS names")
                ->type_name("DIR");
            app.add_option_function<std::string>(
                   "--resume", [flags](const std::string& given) { flags->resume = given; },
                   "go on with a run from its newest checkpoint: its folder, one of its checkpoints, or latest")
                ->type_name("DIR")
                ->default_str("latest")
                ->expected(0, 1);
            app.add_flag("--allow-changed-data", flags->allows_changed_data,
                         "with --resume: go on although the text or the datasets are not those of the run so far");
            declare_read_path(
                app, "--from", flags->from,
                "start with the weights of a Hugging Face folder, a run, one of its checkpoints, or latest; "
                "the model is theirs, everything else the recipe's")
                ->type_name("DIR");
            app.add_flag("--json", flags->json, "print the summary and every loss as JSON");
            app.add_flag("--check-nans", flags->check_nans, "when the loss is not finite, name the op that made it so");
            app.add_flag("--profile", flags->profile,
                         "print what each op and the parts of a step take, at the end and with --json");
            app.add_flag("--verbose", flags->verbose, "print the resolved recipe and the memory plan before step 0");
            declare_without(app, flags->without);
            declare_catalog_flags(app, flags->catalog, "ask or tell it");
            app.add_flag("--tensorboard", flags->exports.tensorboard,
                         "write event files into the run's folder; see them with: tensorboard --logdir runs");
            declare_number(
                app,
                {.name = "--metrics-port",
                 .range = schema::between(0, 65535),
                 .help = "serve metrics for Prometheus at this port of 127.0.0.1 while the run lasts; 0: any that "
                         "is free"},
                [flags](int64_t port) { flags->exports.metrics_port = static_cast<int>(port); });
            declare_written_path(app, "--trace", flags->trace,
                                 "write a timeline of the first steps: chrome://tracing, ui.perfetto.dev")
                ->type_name("FILE");
            return [flags, &app] {
              flags->given = given_flags(app);
              return run_train(*flags);
            };
          }};
}

}  // namespace megacpp::cli
