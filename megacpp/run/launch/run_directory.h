// SPDX-License-Identifier: Apache-2.0
// The folder of one run, and all that a run leaves: recipe.yaml (resolved), plan.json, data.json (run_data.h),
// log.jsonl (every metric of every logged step, a line each), checkpoints/, tokenizer files of the model it started
// with, and the lock file that it was compared with. One process at a time owns it: it is locked from create() or
// open() until the object or the process ends, however that ends. A folder that was made for a run which then left
// nothing is removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/launch/run_lock.h"
#include "megacpp/run/train/train.h"

namespace megacpp::launch {

/// Of a run directory.
std::filesystem::path recipe_file_of(const std::filesystem::path& run);
/// That of a run on several hosts as all of them would run it: `megacpp run --hosts` keeps it beside recipe.yaml, which
/// is what runs.
std::filesystem::path first_recipe_file_of(const std::filesystem::path& run);
std::filesystem::path log_file_of(const std::filesystem::path& run);
checkpoint::Store checkpoints_of(const std::filesystem::path& run);

class RunDirectory {
 public:
  /// A new folder for a run. `given` empty: <name>-<time> in runs_folder(). E1206 where the folder holds a run
  /// already, E3001 where it cannot be written.
  static RunDirectory create(const std::filesystem::path& given, const std::string& name);
  /// That of an earlier run. E1206 where there is none, E3003 where another process has it.
  static RunDirectory open(const std::filesystem::path& folder);
  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  checkpoint::Store checkpoints() const;
  std::filesystem::path recipe_file() const { return recipe_file_of(path_); }
  std::filesystem::path log_file() const { return log_file_of(path_); }

  /// E3001 where its path no longer leads to it: it was moved away or deleted, and nothing of the run would be written
  /// beside the rest of it.
  void require_in_place() const;

  /// Makes it a run: the link `latest` of runs_folder() leads to it from here on, if it is new there. A start that
  /// fails before leaves the link as it was.
  void write_recipe(const std::string& yaml) const;
  void write_plan(const std::string& json) const;
  void write_data(const std::string& json) const;
  /// A copy of the lock file, beside the run's recipe: a run that goes on is compared with it again.
  void keep_lock(const std::filesystem::path& lock_file) const;

  /// Drops the lines of steps from `first_step` on, which will be run again, and what a killed process left of a line.
  void begin_log(int64_t first_step) const;
  /// Adds a line. Why not, where the disk does not take all of it: metrics are printed as well, which is no reason to
  /// end a run. What it took of a line stays a line of its own.
  base::Decision log(const train::StepReport& report);

 private:
  RunDirectory(std::filesystem::path path, RunLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  void remove_unfinished() const;

  std::filesystem::path path_;
  RunLock lock_;
  bool is_new_ = false;  // this object has made the folder
  bool becomes_latest_ = false;
  bool has_half_line_ = false;  // at the end of the log
};

/// Where a checkpoint is that a user names.
struct FoundCheckpoint {
  std::filesystem::path checkpoint;
  std::filesystem::path run;  // that saved it; empty: it is in no run, as `checkpoint convert` leaves it
};
/// `named`: a run directory, for its newest checkpoint, a checkpoint, or "latest" for the run that was started last.
/// However the path is written: what is found is canonical. E1206 where it is none of these, or no checkpoint of the
/// run is complete; E1204 where the newest one has lost its manifest.
FoundCheckpoint find_checkpoint(const std::string& named);
/// The same for a run that is to go on: E1206 for a checkpoint in no run.
FoundCheckpoint find_resume_point(const std::string& named);

/// The newest complete checkpoint of a run; nothing where there is none. What a killed process left in the run is
/// mended and removed before, unless a process trains in it. E1204 as find_checkpoint().
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);

/// The run that a user names: its directory, or "latest" for the one that was started last. E1206 where there is none.
/// Files that a killed process had begun are removed from it.
std::filesystem::path find_run(const std::string& named);

/// E1206 where the folder holds a run or a sweep: a new run takes no other's place.
void refuse_existing_run(const std::filesystem::path& folder);

}  // namespace megacpp::launch
