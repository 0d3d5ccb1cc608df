// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"

namespace megacpp::base {
namespace {

constexpr std::string_view kTemporaryEnding = ".tmp";

bool is_still_there(int descriptor, const std::filesystem::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// Locked, where the file system has locks. Another process may take it for abandoned before it is: then it is made
/// once more.
int open_locked(const std::filesystem::path& path, const std::filesystem::path& named) {
  constexpr int kTries = 100;
  for (int tried = 1;; ++tried) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) fail_writing(named, "cannot open", errno);
    while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (tried == kTries || is_still_there(descriptor, path)) return descriptor;
    ::close(descriptor);
  }
}

bool is_temporary_of(std::string_view name, std::string_view target) {
  if (!name.starts_with(target)) return false;
  name.remove_prefix(target.size());
  if (!name.starts_with(kTemporaryEnding)) return false;
  name.remove_prefix(kTemporaryEnding.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& target, const std::filesystem::path& named)
    : target_(target),
      named_(named),
      path_(target.string() + std::string(kTemporaryEnding) + std::to_string(::getpid())),
      descriptor_(open_locked(path_, named)) {
  if (::ftruncate(descriptor_, 0) == 0) return;
  const int error = errno;
  ::close(descriptor_);
  fail_writing(named, "cannot open", error);
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(descriptor_);
}

void TemporaryFile::take_place() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail_writing(named_, "cannot rename into place", errno);
  path_.clear();
}

void remove_abandoned_temporaries(const std::filesystem::path& target) {
  const std::string name = target.filename().string();
  for (const std::filesystem::path& entry :
       read_folder(target.has_parent_path() ? target.parent_path() : ".").entries) {
    if (!is_temporary_of(entry.filename().string(), name)) continue;
    const int descriptor = ::open(entry.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.c_str());
    ::close(descriptor);
  }
}

}  // namespace megacpp::base
