// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/output_path.h"
#include "megacpp/base/path.h"
#include "megacpp/base/utc_time.h"
#include "megacpp/checkpoint/manifest.h"
#include "megacpp/launch/run_data.h"
#include "megacpp/launch/runs_folder.h"
#include "megacpp/lineage/lock_file.h"
#include "megacpp/train/step_log.h"

namespace megacpp::launch {
namespace {

constexpr const char* kLock = "lock";
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

/// The lock belongs to the open file: the system drops it when the process ends.
int lock_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kLock;
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) base::fail_writing(folder, "cannot create files in it", errno);
  // Who only asks whether a run goes on holds the lock for a moment: it is tried again for a tenth of a second.
  constexpr int kTries = 20;
  int error = 0;
  for (int tried = 0; tried < kTries; ++tried) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    error = errno;
    if (error != EWOULDBLOCK) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::close(fd);
  if (error != EWOULDBLOCK) base::fail_writing(file, "cannot lock", error);
  refuse_run_in_use(folder);
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

/// What was made for a run that left nothing there; a folder that holds something stays.
void remove_if_unused(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove(checkpoints_of(folder).folder(), error);
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().filename() != kLock) return;
  if (error) return;
  std::filesystem::remove(folder / kLock, error);
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
  RunDirectory directory(path, lock_folder(path));
  directory.is_new_ = is_made;
  refuse_existing_run(path);
  directory.checkpoints().remove_partial();
  directory.becomes_latest_ = is_new;
  return directory;
}

RunDirectory RunDirectory::open(const std::filesystem::path& folder) {
  require_run(folder);
  RunDirectory directory(folder, lock_folder(folder));
  directory.checkpoints().remove_partial();
  return directory;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      is_new_(other.is_new_),
      becomes_latest_(other.becomes_latest_),
      has_half_line_(other.has_half_line_) {}

checkpoint::Store RunDirectory::checkpoints() const { return checkpoints_of(path_); }

RunDirectory::~RunDirectory() {
  if (lock_ < 0) return;
  if (is_new_) remove_if_unused(path_);
  ::close(lock_);
}

void RunDirectory::write_recipe(const std::string& yaml) const {
  base::write_file_atomically(recipe_file(), yaml);
  if (becomes_latest_) checkpoint::replace_link(path_.parent_path() / "latest", path_.filename());
}

void RunDirectory::write_plan(const std::string& json) const {
  base::write_file_atomically(path_ / "plan.json", json + "\n");
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
  if (!is_run(path))
    refuse_run(path,
               is_sweep(path) ? why_no_run(path) : fmt::format("neither recipe.yaml nor {}", checkpoint::kManifestFile),
               "a run directory or a checkpoint", "see: megacpp runs list");
  const std::filesystem::path run = base::canonical(path);
  const checkpoint::Store store = checkpoints_of(run);
  if (!is_in_use(run)) store.recover();
  const std::optional<std::filesystem::path> latest = store.latest();
  if (!latest) refuse_run(run, "no complete checkpoint", "a run that was saved", "start it again from its recipe.yaml");
  return {.checkpoint = *latest, .run = run};
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
  return run;
}

void refuse_run_in_use(const std::filesystem::path& folder, std::chrono::seconds waited) {
  const std::string time = waited.count() > 0 ? fmt::format(", after a wait of {} s", waited.count()) : "";
  base::raise(base::Code::E3003, {.where = folder.string(),
                                  .got = "another process that trains in it" + time,
                                  .wanted = "one process at a time",
                                  .next = "wait for it or stop it, or give another --run-dir"});
}

void refuse_existing_run(const std::filesystem::path& folder) {
  if (is_sweep(folder)) refuse_run(folder, "a sweep", "a folder without one", "give another --run-dir");
  if (is_run(folder))
    refuse_run(folder, "a run", "a folder without one",
               fmt::format("go on with it: megacpp train --resume {}, or give another --run-dir", folder.string()));
}

bool is_in_use(const std::filesystem::path& run) {
  const int fd = ::open((run / kLock).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return is_locked;
}

}  // namespace megacpp::launch
