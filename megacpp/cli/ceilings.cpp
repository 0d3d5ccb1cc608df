// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/ceilings.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/compare_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/evidence/compare/fields.h"
#include "megacpp/evidence/compare/launches.h"
#include "megacpp/evidence/report/ceilings_table.h"
#include "megacpp/evidence/sweep/probe.h"
#include "megacpp/evidence/sweep/trial_runner.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::cli {
namespace {

struct CeilingFlags {
  std::vector<std::string> folders;
  std::shared_ptr<RecipeFlags> recipe;
  std::string key = "train.batch";
  std::string folder;
  int64_t times = static_cast<int64_t>(compare::kTimesToValidate);
  int64_t most_times = 64;
  bool json = false;
};

int list_ceilings(const CeilingFlags& flags) {
  std::vector<std::string> folders = flags.folders;
  for (const std::string& folder : folders)
    MEGACPP_REQUIRE(base::is_folder(folder), E1008,
                    {.where = "--runs",
                     .got = (folder.empty() ? "an empty path" : folder) + ": no such folder",
                     .wanted = "a folder of run directories, or one of them",
                     .next = "check the path, or leave the flag out to read the folder that training writes to"});
  if (folders.empty()) folders.push_back(launch::runs_folder().string());
  const compare::ReadReceipts read = compare::read_launches(folders);
  print_skipped(read.skipped);
  const std::vector<compare::Ceiling> ceilings = compare::ceilings_of(read.receipts, static_cast<size_t>(flags.times));
  if (flags.json) {
    print_json(
        {{"times", flags.times}, {"ceilings", base::record_json(ceilings)}, {"skipped", skipped_json(read.skipped)}});
    return 0;
  }
  if (ceilings.empty()) print_err("no run has made two steps yet\n");
  write_output(to_text(report::ceilings_table(ceilings, static_cast<size_t>(flags.times))) +
               "batch x sequence of a micro-step, all chips together\n");
  return 0;
}

std::string probe_text(const sweep::Probe& probe, const CeilingFlags& flags) {
  if (probe.was_stopped) return "stopped: nothing was validated";
  if (probe.failed) return "nothing was validated: the last run failed for another reason than its memory";
  if (probe.validated == 0) return "nothing was validated: not even the recipe's own value fits";
  return fmt::format("validated {} times: {}={}{}", flags.times, flags.key, probe.validated,
                     probe.reached_most ? "; more was not tried" : "");
}

int probe_ceiling(const CeilingFlags& flags) {
  launch::require_alone("megacpp ceilings probe", "start it alone: it starts one training after the other");
  const recipe::Recipe recipe = flags.recipe->load();
  const sweep::ProbeRequest request{.recipe = recipe,
                                    .key = flags.key,
                                    .times = static_cast<size_t>(flags.times),
                                    .most_times = flags.most_times,
                                    .folder = flags.folder};
  const base::StopRequest stop;
  const sweep::TrialRunner runner = sweep::program_runner(sweep::this_program(), [&stop] { return stop.has_come(); });
  const sweep::Probe probe =
      sweep::run_probe(request, runner, [&](int64_t value) { print_err("trying     {}={}\n", flags.key, value); });
  Json trials = Json::array();
  for (const sweep::ProbedValue& trial : probe.trials) {
    trials.push_back(Json{{"value", trial.value}, {"status", trial.status}, {"error", trial.error}});
    if (!flags.json) print_out("{}={:<8} {}\n", flags.key, trial.value, trial.status == 0 ? "ran" : trial.error);
  }
  if (flags.json)
    print_json({{"key", flags.key},
                {"validated", probe.validated > 0 ? Json(probe.validated) : Json()},
                {"reached_most", probe.reached_most},
                {"trials", trials}});
  else
    print_out("{}\n", probe_text(probe, flags));
  if (probe.was_stopped) return base::kInterruptedStatus;
  flush_output();
  if (!probe.failed) return 0;
  const sweep::ProbedValue& last = probe.trials.back();
  throw base::Error(sweep::error_of({last.error}, {.where = fmt::format("{}={}", flags.key, last.value),
                                                   .got = last.error,
                                                   .wanted = "a run that trains, or does not fit",
                                                   .next = "mend what it says, and probe again"}));
}

void declare_times(CLI::App& app, CeilingFlags& flags) {
  declare_number(app, {.name = "--times", .range = schema::between(1, 100), .help = "runs that validate a shape"},
                 flags.times)
      ->default_str(std::to_string(flags.times));
}

Command probe_word() {
  return {.name = "probe",
          .summary = "find the largest batch or sequence length that trains, and validate it",
          .example = "megacpp ceilings probe recipes/nam56r-tiny.yaml --key train.batch --dir runs/probe",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<CeilingFlags>();
            flags->recipe = declare_recipe_flags(app, RecipeFile::or_model);
            app.add_option("--key", flags->key, "what grows, by multiples of the recipe's value")
                ->check(CLI::IsMember({"train.batch", "train.sequence"}))
                ->capture_default_str();
            app.add_option("--dir", flags->folder, "folder of the runs that it makes")->required()->type_name("DIR");
            declare_times(app, *flags);
            declare_number(app,
                           {.name = "--most",
                            .range = schema::between(1, 1 << 20),
                            .help = "at most so many times the recipe's value"},
                           flags->most_times)
                ->default_str(std::to_string(flags->most_times));
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return probe_ceiling(*flags); };
          }};
}

}  // namespace

Command ceilings_command() {
  return {.name = "ceilings",
          .summary = "the largest shapes that ran repeatedly, by model, topology and lane",
          .example =
              "megacpp ceilings --runs runs\n"
              "  megacpp ceilings probe recipes/nam56r-tiny.yaml --dir runs/probe",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<CeilingFlags>();
            app.add_option("--runs", flags->folders,
                           "folders of runs; without: runs, or what MEGACPP_RUNS names; may be repeated")
                ->type_name("DIR");
            declare_times(app, *flags);
            app.add_flag("--json", flags->json, "print JSON");
            return declare_words(app, {probe_word()}, [flags] { return list_ceilings(*flags); });
          }};
}

}  // namespace megacpp::cli
