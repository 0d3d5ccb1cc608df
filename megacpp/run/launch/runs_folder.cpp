// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/runs_folder.h"

#include <system_error>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"

namespace megacpp::launch {
namespace {

constexpr const char* kLatest = "latest";
constexpr const char* kRecipeFile = "recipe.yaml";

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_link(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_symlink(path, ignored);
}

/// Sweeps have a recipe too.
void add_runs_in(const std::filesystem::path& folder, std::vector<std::filesystem::path>& runs,
                 std::vector<std::filesystem::path>& sweeps) {
  for (const std::filesystem::path& entry : base::list_folder(folder))
    if (is_file(entry / kRecipeFile) && !is_link(entry)) (is_sweep(entry) ? sweeps : runs).push_back(entry);
}

void add_folders_of(const std::vector<std::filesystem::path>& sweeps, std::vector<std::filesystem::path>& folders) {
  for (const std::filesystem::path& sweep : sweeps)
    if (!is_link(runs_of_sweep(sweep))) folders.push_back(runs_of_sweep(sweep));
}

}  // namespace

std::filesystem::path runs_folder() {
  const std::string named = base::environment_variable("MEGACPP_RUNS");
  return named.empty() ? "runs" : named;
}

std::filesystem::path path_named(const std::string& named) {
  if (named != kLatest) return named;
  const std::filesystem::path folder = runs_folder();
  if (base::exists(folder / kLatest)) return folder / kLatest;
  const bool is_empty = runs_in(folder).empty();
  base::raise(base::Code::E1206,
              {.where = folder.string(),
               .got = is_empty ? "no runs here" : "no run that was started last: the link latest leads nowhere",
               .wanted = "the folder that training writes to",
               .next = is_empty ? "name a run directory, or set MEGACPP_RUNS to the folder that has your runs"
                                : "name one of them; see: megacpp runs list"});
}

std::filesystem::path runs_of_sweep(const std::filesystem::path& sweep) { return sweep / "runs"; }

bool is_run(const std::filesystem::path& folder) { return is_file(folder / kRecipeFile) && !is_sweep(folder); }

bool is_sweep(const std::filesystem::path& folder) { return is_file(folder / kSweepFile); }

std::vector<std::filesystem::path> sweeps_in(const std::filesystem::path& folder) {
  if (is_sweep(folder)) return {folder};
  std::vector<std::filesystem::path> sweeps;
  for (const std::filesystem::path& entry : base::list_folder(folder))
    if (is_sweep(entry) && !is_link(entry)) sweeps.push_back(entry);
  return sweeps;
}

std::vector<std::filesystem::path> folders_of_runs(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> folders;
  if (!is_sweep(folder)) folders.push_back(folder);
  add_folders_of(sweeps_in(folder), folders);
  return folders;
}

// A folder may have thousands of runs, and is listed once.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> runs, sweeps, folders;
  if (is_sweep(folder))
    sweeps = {folder};
  else
    add_runs_in(folder, runs, sweeps);
  add_folders_of(sweeps, folders);
  for (const std::filesystem::path& each : folders) add_runs_in(each, runs, sweeps);
  return runs;
}

}  // namespace megacpp::launch
