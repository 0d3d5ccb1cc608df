// SPDX-License-Identifier: Apache-2.0
// Where runs are, and which there are: run directories in a folder, and those of the sweeps in it. A sweep has the
// recipe that it was begun with, as a run does, but its runs are below it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace megacpp::launch {

/// "runs" in the current folder, or what MEGACPP_RUNS names.
std::filesystem::path runs_folder();

/// The path that a user means: "latest" is the run that was started last. E1206 where there is no such run.
std::filesystem::path path_named(const std::string& named);

/// Of a sweep: what it is, and where its runs are.
inline constexpr const char* kSweepFile = "sweep.json";
std::filesystem::path runs_of_sweep(const std::filesystem::path& sweep);

bool is_run(const std::filesystem::path& folder);
bool is_sweep(const std::filesystem::path& folder);

/// Sweeps in a folder, by name; the folder itself where it is one. Links are left out.
std::vector<std::filesystem::path> sweeps_in(const std::filesystem::path& folder);
/// The folder, unless it is a sweep, and those of the runs of its sweeps.
std::vector<std::filesystem::path> folders_of_runs(const std::filesystem::path& folder);
/// Run directories in all of these, by name in each. Links are left out.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder);

}  // namespace megacpp::launch
