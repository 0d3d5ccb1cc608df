// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/output_path.h"

namespace megacpp::launch {
namespace {

int locked_file(const std::filesystem::path& run) {
  const std::filesystem::path file = run / kRunLock;
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) base::fail_writing(run, "cannot create files in it", errno);
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
  refuse_run_in_use(run);
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run)
    : file_(locked_file(run)), folder_(::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

RunLock::~RunLock() {
  if (!is_held()) return;
  ::close(folder_);
  ::close(file_);
}

RunLock::RunLock(RunLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), folder_(std::exchange(other.folder_, -1)) {}

bool RunLock::is_of(const std::filesystem::path& run) const {
  struct stat locked = {}, named = {};
  return ::fstat(folder_, &locked) == 0 && ::stat(run.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
         locked.st_ino == named.st_ino;
}

std::filesystem::path RunLock::place() const {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", folder_), error);
  return !error && is_of(place) ? place : std::filesystem::path();
}

IdleRun::IdleRun(const std::filesystem::path& run) : file_(::open((run / kRunLock).c_str(), O_RDONLY | O_CLOEXEC)) {
  is_idle_ = file_ < 0 || ::flock(file_, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

IdleRun::~IdleRun() {
  if (file_ >= 0) ::close(file_);
}

bool is_in_use(const std::filesystem::path& run) { return !IdleRun(run).is_idle(); }

void refuse_run_in_use(const std::filesystem::path& run, std::chrono::seconds waited) {
  const std::string time = waited.count() > 0 ? fmt::format(", after a wait of {} s", waited.count()) : "";
  base::raise(base::Code::E3003, {.where = run.string(),
                                  .got = "another process that trains in it" + time,
                                  .wanted = "one process at a time",
                                  .next = "wait for it or stop it, or give another --run-dir"});
}

}  // namespace megacpp::launch
