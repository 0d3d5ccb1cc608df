// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/sweep.h"

#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/sweep_report.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/evidence/sweep/sweep_result.h"
#include "megacpp/evidence/sweep/trial_runner.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::cli {
namespace {

struct SweepFlags {
  std::shared_ptr<RecipeFlags> recipe;
  std::string axis;
  std::string folder;
  int64_t repeats = 3;
  bool json = false;
};

/// "sweep-nam52-tiny-layout.tensor_parallel", the same for the same command: so it goes on where it was.
std::filesystem::path folder_for(const SweepFlags& flags, const std::string& name, const sweep::Axis& axis) {
  if (!flags.folder.empty()) return flags.folder;
  std::string stem = "sweep-" + name + "-" + axis.key;
  for (char& c : stem)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  return launch::runs_folder() / stem;
}

sweep::Sweep sweep_all(const SweepFlags& flags) {
  const sweep::Axis axis = sweep::parse_axis(flags.axis);
  const recipe::Recipe recipe = flags.recipe->load();
  const sweep::SweepRequest request{.recipe = recipe,
                                    .axis = axis,
                                    .repeats = static_cast<size_t>(flags.repeats),
                                    .folder = folder_for(flags, recipe.name, axis)};
  print_err("sweep      {} in {}\n", flags.axis, request.folder.string());
  const base::StopRequest stop;
  const sweep::TrialRunner runner = sweep::program_runner(sweep::this_program(), [&stop] { return stop.has_come(); });
  return sweep::run_sweep(request, runner, [&](size_t done, size_t all, const sweep::Trial& trial) {
    print_err("run {:>3}/{}  {}={}, repeat {}\n", done + 1, all, axis.key, axis.values[trial.value], trial.repeat + 1);
  });
}

/// Nothing was measured: a script that goes on with the best value has none.
void require_one_run(const sweep::Sweep& sweep) {
  std::vector<std::string> errors;
  for (const sweep::TrialRecord& trial : sweep.trials) {
    if (trial.status == 0) return;
    errors.push_back(trial.error);
  }
  if (errors.empty()) return;
  throw base::Error(
      sweep::error_of(errors, {.where = "sweep in " + sweep.folder.string(),
                               .got = fmt::format("{}, of which none succeeded; the first ended with: {}",
                                                  base::counted(std::ssize(errors), "run"), errors.front()),
                               .wanted = "at least one value that trains",
                               .next = "mend what the runs say; the same command tries them again"}));
}

int run_sweep_command(const SweepFlags& flags) {
  launch::require_alone("megacpp sweep", "start megacpp sweep alone: it starts one training after the other");
  const sweep::Sweep sweep = sweep_all(flags);
  const std::vector<sweep::ValueResult> results = sweep::results_of(sweep);
  base::write_file_atomically(sweep.folder / "plot.svg", sweep_svg(sweep, results));
  if (flags.json)
    print_json(sweep_json(sweep, results));
  else
    write_output(sweep_text(sweep, results));
  print_err("plot       {}\n", (sweep.folder / "plot.svg").string());
  if (sweep.was_stopped) {
    print_err("stopped; the same command goes on with what is left\n");
    return base::kInterruptedStatus;
  }
  flush_output();
  require_one_run(sweep);
  return 0;
}

}  // namespace

Command sweep_command() {
  return {.name = "sweep",
          .summary = "train with each value of one recipe key, all else held, and compare",
          .example =
              "megacpp sweep recipes/nam56r-tiny.yaml --axis layout.tensor_parallel=1,2 --set train.log_every=1\n"
              "  megacpp sweep recipes/nam56r-tiny.yaml --axis train.batch=4,8,16 --repeats 5",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<SweepFlags>();
            flags->recipe = declare_recipe_flags(app);
            app.add_option("--axis", flags->axis, "the key and its values; the first one is the baseline")
                ->required()
                ->type_name("KEY=A,B,...");
            declare_number(app,
                           {.name = "--repeats",
                            .range = schema::between(1, static_cast<double>(sweep::kMostRepeats)),
                            .help = "runs of each value, in turn with the others"},
                           flags->repeats)
                ->default_str(std::to_string(flags->repeats));
            app.add_option("--dir", flags->folder,
                           "folder of the sweep; one that was stopped goes on in it; without: sweep-NAME-KEY in runs, "
                           "or in the folder that MEGACPP_RUNS names")
                ->type_name("DIR");
            app.add_flag("--json", flags->json, "print JSON");
            return [flags] { return run_sweep_command(*flags); };
          }};
}

}  // namespace megacpp::cli
