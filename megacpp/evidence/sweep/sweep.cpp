// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/sweep.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/evidence/sweep/sweep_file.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"

namespace megacpp::sweep {
namespace {

constexpr const char* kRecipeFile = "recipe.yaml";

std::string override_of(const Axis& axis, size_t value) { return axis.key + "=" + axis.values[value]; }

// Kinds and ranges of all values, before the first one costs time.
void check_values(const SweepRequest& request) {
  const std::string text = recipe::print(request.recipe);
  for (size_t value = 0; value < request.axis.values.size(); ++value)
    recipe::parse(text, "the recipe of the sweep", std::vector{override_of(request.axis, value)});
}

/// What was run in the folder before, if it is the same sweep; more repeats may be wanted now.
Sweep begin_or_go_on(const SweepRequest& request) {
  const std::filesystem::path recipe_file = request.folder / kRecipeFile;
  const std::string text = recipe::print(request.recipe);
  std::optional<Sweep> before = read_sweep(request.folder);
  if (before) {
    MEGACPP_REQUIRE(before->axis == request.axis, E1007,
                    {.where = request.folder.string(),
                     .got = "a sweep of " + to_text(before->axis),
                     .wanted = to_text(request.axis),
                     .next = "name another folder with --dir"});
    MEGACPP_REQUIRE(base::exists(recipe_file) && base::read_file(recipe_file) == text, E1007,
                    {.where = request.folder.string(),
                     .got = "a sweep of another recipe, or with other settings",
                     .wanted = "the recipe it was begun with",
                     .next = "name another folder with --dir"});
    before->repeats = std::max(before->repeats, request.repeats);
    std::erase_if(before->trials, [](const TrialRecord& record) { return record.status != 0; });  // tried again
    return std::move(*before);
  }
  base::make_folder(launch::runs_of_sweep(request.folder));
  base::write_file_atomically(recipe_file, text);
  return {.folder = request.folder, .axis = request.axis, .repeats = request.repeats};
}

// "2-8-1": the value's number and text, the repeat; a name that an interrupted run has taken gets a number.
std::string free_run_name(const Sweep& sweep, const Trial& trial) {
  std::string value = sweep.axis.values[trial.value].substr(0, 40);
  for (char& c : value)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  const std::string stem = fmt::format("{}-{}-{}", trial.value + 1, value, trial.repeat + 1);
  std::string name = stem;
  for (int again = 2; base::exists(launch::runs_of_sweep(sweep.folder) / name); ++again)
    name = fmt::format("{}.{}", stem, again);
  return name;
}

// A value that was refused, or did not fit, would be so every time.
bool is_refusal(const TrialRecord& record) {
  return record.status == base::exit_status(base::ErrorClass::user) ||
         record.status == base::exit_status(base::ErrorClass::does_not_fit);
}

bool need_not_run(const Sweep& sweep, const Trial& trial) {
  return std::ranges::any_of(sweep.trials, [&](const TrialRecord& record) {
    return record.trial == trial || (record.trial.value == trial.value && is_refusal(record));
  });
}

}  // namespace

size_t runs_left(const Sweep& sweep) {
  const std::vector<Trial> trials = interleaved(sweep.axis.values.size(), sweep.repeats);
  const auto is_left = [&](const Trial& trial) { return !need_not_run(sweep, trial); };
  return static_cast<size_t>(std::ranges::count_if(trials, is_left));
}

std::string progress_text(const Sweep& sweep) {
  const size_t done = sweep.trials.size(), left = runs_left(sweep);
  const std::string all = base::counted(static_cast<int64_t>(done + left), "run");
  return left == 0 ? all : fmt::format("{} of {}", done, all);
}

Sweep run_sweep(const SweepRequest& request, const TrialRunner& runner, const OnTrial& on_trial) {
  check_values(request);
  Sweep sweep = begin_or_go_on(request);
  write_sweep(sweep);
  const std::vector<Trial> trials = interleaved(sweep.axis.values.size(), sweep.repeats);
  for (size_t i = 0; i < trials.size() && !sweep.was_stopped; ++i) {
    if (need_not_run(sweep, trials[i])) continue;
    on_trial(i, trials.size(), trials[i]);
    TrialRecord record{.trial = trials[i], .run = free_run_name(sweep, trials[i])};
    const TrialRequest asked{.recipe = sweep.folder / kRecipeFile,
                             .overrides = {override_of(sweep.axis, trials[i].value)},
                             .run = sweep.run_path(record)};
    const TrialEnd end = runner(asked);
    sweep.was_stopped = end.status == base::kInterruptedStatus;
    if (sweep.was_stopped) break;
    record.status = end.status;
    record.error = end.error;
    sweep.trials.push_back(std::move(record));
    write_sweep(sweep);
  }
  return sweep;
}

}  // namespace megacpp::sweep
