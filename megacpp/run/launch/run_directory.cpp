// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/temporary_file.h"
#include "megacpp/core/base/utc_time.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/launch/run_data.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/lineage/lock_file.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::launch {
namespace {

constexpr const char* kPlan = "plan.json";
constexpr int kMaxNames = 1000;  // of runs that begin in the same second

[[noreturn]] void refuse_run(const std::filesystem::path& where, std::string got, std::string wanted,
                             std::string next) {
  base::raise(base::Code::E1206,
              {.where = where.string(), .got = std::move(got), .wanted = std::move(wanted), .next = std::move(next)});
}

std::string why_no_run(const std::filesystem::path& folder) {
  return is_sweep(folder) ? "a sweep, whose runs are in " + runs_of_sweep(folder).string() : "no recipe.yaml";
}

void require_run(const std::filesystem::path& folder) {
  if (!is_run(folder)) refuse_run(folder, why_no_run(folder), "a run directory", "see: megacpp runs list");
}

[[noreturn]] void refuse_damaged(const std::filesystem::path& checkpoint, const checkpoint::Store& store) {
  const std::optional<std::filesystem::path> older = store.latest();
  base::raise(base::Code::E1204,
              {.where = checkpoint.string(),
               .got = fmt::format("no {}, which every checkpoint of a run has", checkpoint::kManifestFile),
               .wanted = "a checkpoint as it was written",
               .next = older ? fmt::format("put the file back, or go on from the one before: megacpp train --resume {}",
                                           older->string())
                             : "put the file back; the run has no other checkpoint"});
}

/// Of the files that a run writes whole, those that a killed process had begun.
void remove_temporaries(const std::filesystem::path& run) {
  for (const std::filesystem::path& file :
       {recipe_file_of(run), first_recipe_file_of(run), run / kPlan, log_file_of(run), run / lineage::kLockName})
    base::remove_abandoned_temporaries(file);
}

/// Letters, digits and "._-" of the recipe's name; all else becomes "-".
std::string folder_name(const std::string& name) {
  std::string plain = name.empty() ? "run" : name;
  for (char& c : plain)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  if (plain.front() == '.') plain.front() = '-';
  return plain.substr(0, 100);
}

/// "20261115T170321Z"
std::string compact_time() {
  std::string time = base::utc_now();
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  return time;
}

/// A folder that was not there before, whatever the clock says: a name that is taken gets a number.
std::filesystem::path make_new_folder(const std::filesystem::path& parent, const std::string& name) {
  base::make_folder(parent);
  const std::string stem = folder_name(name) + "-" + compact_time();
  for (int number = 1; number <= kMaxNames; ++number) {
    const std::filesystem::path folder = parent / (number == 1 ? stem : fmt::format("{}-{}", stem, number));
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) base::fail_writing(folder, "cannot create the folder", errno);
  }
  base::fail_writing(parent / stem, "cannot create the folder", EEXIST);
}

/// What was made for a run that left nothing there; a folder that holds something stays. std::bad_alloc.
void remove_if_unused(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove(checkpoints_of(folder).folder(), error);
  const base::FolderEntries found = base::read_folder(folder);
  if (found.error) return;
  for (const std::filesystem::path& entry : found.entries)
    if (entry.filename() != kRunLock) return;
  std::filesystem::remove(folder / kRunLock, error);
  std::filesystem::remove(folder, error);
}

/// The whole lines of steps before `first_step`.
std::string lines_before(const std::string& text, int64_t first_step) {
  std::string kept;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end + 1 - begin);
    const std::optional<train::StepReport> report = train::report_of(line);
    if (report && report->step < first_step) kept += line;
  }
  return kept;
}

}  // namespace

RunDirectory RunDirectory::create(const std::filesystem::path& given, const std::string& name) {
  const bool is_new = given.empty();
  const bool is_made = is_new || !base::exists(given);
  const std::filesystem::path path = is_new ? make_new_folder(runs_folder(), name) : given;
  if (!is_new) base::make_folder(path);
  RunDirectory directory(path, RunLock(path));
  directory.is_new_ = is_made;
  refuse_existing_run(path);
  directory.remove_unfinished();
  directory.becomes_latest_ = is_new;
  return directory;
}

RunDirectory RunDirectory::open(const std::filesystem::path& folder) {
  require_run(folder);
  RunDirectory directory(folder, RunLock(folder));
  directory.remove_unfinished();
  return directory;
}

void RunDirectory::remove_unfinished() const {
  checkpoints().remove_partial();
  remove_temporaries(path_);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::move(other.lock_)),
      is_new_(other.is_new_),
      becomes_latest_(other.becomes_latest_),
      has_half_line_(other.has_half_line_) {}

checkpoint::Store RunDirectory::checkpoints() const { return checkpoints_of(path_); }

RunDirectory::~RunDirectory() {
  if (!lock_.is_held() || !is_new_) return;
  try {
    remove_if_unused(path_);
  } catch (const std::bad_alloc&) {
    return;  // an empty folder stays
  }
}

void RunDirectory::require_in_place() const {
  if (lock_.is_of(path_)) return;
  const std::filesystem::path now = lock_.place();
  const bool is_moved = is_run(now);
  base::raise(
      base::Code::E3001,
      {.where = path_.string(),
       .got = is_moved ? fmt::format("a run directory that was moved to {} while the run goes on", now.string())
                       : "a run directory that was deleted while the run goes on",
       .wanted = "the run directory where it was, until the run has ended",
       .next = is_moved ? "go on where it is now: megacpp train --resume " + now.string() : "start the run again"});
}

void RunDirectory::write_recipe(const std::string& yaml) const {
  base::write_file_atomically(recipe_file(), yaml);
  if (becomes_latest_) checkpoint::replace_link(path_.parent_path() / "latest", path_.filename());
}

void RunDirectory::write_plan(const std::string& json) const {
  base::write_file_atomically(path_ / kPlan, json + "\n");
}

void RunDirectory::write_data(const std::string& json) const { base::write_file_atomically(data_file_of(path_), json); }

void RunDirectory::keep_lock(const std::filesystem::path& lock_file) const {
  const std::filesystem::path own = path_ / lineage::kLockName;
  const std::string text = base::read_file(lock_file);
  if (!base::exists(own) || base::read_file(own) != text) base::write_file_atomically(own, text);
}

void RunDirectory::begin_log(int64_t first_step) const {
  std::error_code ignored;
  const std::string text = std::filesystem::exists(log_file(), ignored) ? base::read_file(log_file()) : "";
  const std::string kept = lines_before(text, first_step);
  if (kept != text || text.empty()) base::write_file_atomically(log_file(), kept);
}

base::Decision RunDirectory::log(const train::StepReport& report) {
  const std::string line = (has_half_line_ ? "\n" : "") + train::line_of(report);
  const int fd = ::open(log_file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return base::Decision::no(std::strerror(errno));
  size_t written = 0;
  int error = 0;
  while (written < line.size() && error == 0) {
    const ssize_t count = ::write(fd, line.data() + written, line.size() - written);
    if (count >= 0) written += static_cast<size_t>(count);
    if (count < 0 && errno != EINTR) error = errno;
  }
  ::close(fd);
  if (written > 0) has_half_line_ = line[written - 1] != '\n';
  return error == 0 ? base::Decision::yes() : base::Decision::no(std::strerror(error));
}

std::filesystem::path recipe_file_of(const std::filesystem::path& run) { return run / "recipe.yaml"; }

std::filesystem::path first_recipe_file_of(const std::filesystem::path& run) { return run / "first_recipe.yaml"; }

std::filesystem::path log_file_of(const std::filesystem::path& run) { return run / "log.jsonl"; }

checkpoint::Store checkpoints_of(const std::filesystem::path& run) { return checkpoint::Store(run / "checkpoints"); }

FoundCheckpoint find_checkpoint(const std::string& named) {
  const std::filesystem::path path = path_named(named);
  if (base::exists(path / checkpoint::kManifestFile)) {
    // Links, "." and a slash at the end would lead to other folders above it.
    const std::filesystem::path checkpoint = base::canonical(path);
    const std::filesystem::path run = checkpoint.parent_path().parent_path();
    const bool is_in_run = checkpoint.parent_path() == checkpoints_of(run).folder() && is_run(run);
    return {.checkpoint = checkpoint, .run = is_in_run ? run : std::filesystem::path()};
  }
  if (const std::filesystem::path step = base::exists(path) ? base::canonical(path) : path;
      checkpoints_of(step.parent_path().parent_path()).is_damaged(step))
    refuse_damaged(step, checkpoints_of(step.parent_path().parent_path()));
  if (!is_run(path))
    refuse_run(path,
               is_sweep(path) ? why_no_run(path) : fmt::format("neither recipe.yaml nor {}", checkpoint::kManifestFile),
               "a run directory or a checkpoint", "see: megacpp runs list");
  const std::filesystem::path run = base::canonical(path);
  const std::optional<std::filesystem::path> latest = newest_checkpoint(run);
  if (!latest) refuse_run(run, "no complete checkpoint", "a run that was saved", "start it again from its recipe.yaml");
  return {.checkpoint = *latest, .run = run};
}

std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run) {
  const checkpoint::Store store = checkpoints_of(run);
  if (const IdleRun looked(run); looked.is_idle()) {
    store.recover();
    remove_temporaries(run);
  }
  if (const auto damaged = store.damaged_latest()) refuse_damaged(*damaged, store);
  return store.latest();
}

FoundCheckpoint find_resume_point(const std::string& named) {
  FoundCheckpoint found = find_checkpoint(named);
  if (found.run.empty())
    refuse_run(found.checkpoint,
               fmt::format("a checkpoint in no run: no recipe.yaml in {}",
                           found.checkpoint.parent_path().parent_path().string()),
               "a run directory or one of its checkpoints",
               "start a new run with its weights: megacpp train RECIPE --from " + found.checkpoint.string());
  return found;
}

std::filesystem::path find_run(const std::string& named) {
  const std::filesystem::path run = path_named(named);
  require_run(run);
  if (const IdleRun looked(run); looked.is_idle()) remove_temporaries(run);
  return run;
}

void refuse_existing_run(const std::filesystem::path& folder) {
  if (is_sweep(folder)) refuse_run(folder, "a sweep", "a folder without one", "give another --run-dir");
  if (is_run(folder))
    refuse_run(folder, "a run", "a folder without one",
               fmt::format("go on with it: megacpp train --resume {}, or give another --run-dir", folder.string()));
}

}  // namespace megacpp::launch
