// SPDX-License-Identifier: Apache-2.0
// What runs have left, for pages: their receipts and logs, as far as these can be read. A file that is missing, broken,
// half-written or of a newer version is a problem with a name; it takes nothing from the rest.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/run/train/train.h"

namespace megacpp::report {

struct FileProblem {
  std::string where;                      // the file
  std::string what;                       // "3 of 150 lines are broken"
  std::string next;                       // what to do about it
  std::optional<base::Error> error = {};  // that reading it ended with, if one did
};

struct RunRecord {
  std::string name;  // of its folder, and where others are called so too, its path; distinct among those read together
  std::filesystem::path path;
  std::optional<receipt::Receipt> receipt = {};  // its `run` is `name`
  std::vector<train::StepReport> log = {};
  std::vector<FileProblem> problems = {};

  bool is_empty() const { return !receipt && log.empty(); }
};

/// Each path is a run directory, a receipt file, a folder of run directories, or "latest". `on_run` is called before
/// each that is read.
std::vector<RunRecord> read_runs(const std::vector<std::string>& named,
                                 const std::function<void(const std::filesystem::path&)>& on_run = {});

}  // namespace megacpp::report
