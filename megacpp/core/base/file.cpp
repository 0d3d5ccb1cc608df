// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/temporary_file.h"

namespace megacpp::base {
namespace {

[[noreturn]] void fail_reading(const std::filesystem::path& path, const std::string& got) {
  raise(Code::E1008, {.where = path.empty() ? "an empty path" : path.string(),
                      .got = got,
                      .wanted = "a readable file",
                      .next = "check the path and its permissions"});
}

[[noreturn]] void fail_reading(const std::filesystem::path& path, std::string_view action, int error) {
  fail_reading(path, std::string(action) + ": " + std::strerror(error));
}

[[noreturn]] void refuse_changed(const std::filesystem::path& path, const std::string& got) {
  raise(Code::E1008, {.where = path.string(),
                      .got = got,
                      .wanted = "a file that stays as it is while it is read",
                      .next = "put the file back as it was, and run the command again"});
}

/// An open file descriptor, closed on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Never waits: what turns out to be a FIFO without a writer is refused by regular_stamp().
int open_for_reading(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) fail_reading(path, "cannot open", errno);
  return fd;
}

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .number = status.st_ino,
          .bytes = status.st_size,
          .seconds = status.st_mtim.tv_sec,
          .nanoseconds = status.st_mtim.tv_nsec};
}

/// Only files have an end: a device may give bytes for ever, a FIFO none.
FileStamp regular_stamp(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_reading(path, "cannot inspect", errno);
  if (S_ISDIR(status.st_mode)) fail_reading(path, "cannot read", EISDIR);
  if (!S_ISREG(status.st_mode))
    fail_reading(path, S_ISFIFO(status.st_mode) ? "a FIFO" : S_ISSOCK(status.st_mode) ? "a socket" : "a device");
  return stamp_of(status);
}

void write_all(int file, const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  for (std::span<const std::byte> part : parts)
    while (!part.empty()) {
      const ssize_t written = ::write(file, part.data(), part.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_writing(path, "cannot write", errno);
      part = part.subspan(static_cast<size_t>(written));
    }
}

/// Into a device or a FIFO, which must have its reader already; the writes themselves wait for it.
void write_through(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0 || ::fcntl(file.get(), F_SETFL, 0) != 0) fail_writing(path, "cannot open", errno);
  write_all(file.get(), path, parts);
}

/// The folders on the way that are not there, the outermost first. None may be left by "..": it would be made for
/// nothing, outside of where the path leads.
std::vector<std::filesystem::path> missing_folders(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> missing;
  std::filesystem::path at;
  for (const std::filesystem::path& part : path) {
    at /= part;
    struct stat status = {};
    const bool exists = missing.empty() && ::stat(at.c_str(), &status) == 0;
    const int error = errno;
    if (exists && S_ISDIR(status.st_mode)) continue;
    if (exists) fail_writing(path, "cannot create the folder", ENOTDIR);
    if (missing.empty() && error != ENOENT) fail_writing(path, "cannot create the folder", error);
    if (part == "..") fail_writing(path, "cannot create the folder", ENOENT);
    if (!part.empty() && part != ".") missing.push_back(at);
  }
  return missing;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(open_for_reading(path));
  std::string text;
  const auto size = static_cast<size_t>(regular_stamp(file, path).bytes);
  // A sparse file may claim any size, and the system hands out more memory than there is.
  if (size > static_cast<size_t>(machine_memory_bytes()))
    fail_reading(path, std::to_string(size) + " bytes, more than this machine's memory");
  text.reserve(size);
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_reading(path, "cannot read", errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  const OutputPath output = resolve_output(path);
  if (!output.is_file) return write_through(path, parts);
  remove_abandoned_temporaries(output.target);
  TemporaryFile temporary(output.target, path);
  write_all(temporary.descriptor(), path, parts);
  if (::fsync(temporary.descriptor()) != 0) fail_writing(path, "cannot sync", errno);
  temporary.take_place();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  write_file_atomically(path, std::span(&part, 1));
}

void make_folder(const std::filesystem::path& path) {
  if (path.empty()) fail_writing(path, "cannot create the folder", ENOENT);
  const std::vector<std::filesystem::path> missing = missing_folders(path);
  std::vector<std::filesystem::path> made;
  for (const std::filesystem::path& folder : missing) {
    if (::mkdir(folder.c_str(), 0777) == 0) {
      made.push_back(folder);
      continue;
    }
    const int error = errno;
    std::error_code ignored;
    if (error == EEXIST && std::filesystem::is_directory(folder, ignored)) continue;  // another process was faster
    for (; !made.empty(); made.pop_back()) ::rmdir(made.back().c_str());
    fail_writing(path, "cannot create the folder", error);
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(open_for_reading(path));
  found_ = regular_stamp(file, path);
  if (found_.bytes == 0) return;  // mmap refuses an empty range
  mapping_ = GuardedMapping(file.get(), static_cast<size_t>(found_.bytes), PROT_READ, MAP_PRIVATE);
  if (mapping_.bytes().empty()) fail_reading(path, "cannot map", errno);
}

// Where another file has taken the name, the one that is mapped has none, and stays as it is.
void MappedFile::require_unchanged() const {
  const bool is_damaged = mapping_.is_damaged();
  struct stat status = {};
  const FileStamp now = ::stat(path_.c_str(), &status) == 0 ? stamp_of(status) : FileStamp();
  const bool is_here = now.is_same_file(found_);
  if (is_here && now.bytes != found_.bytes)
    refuse_changed(path_, "a file of " + std::to_string(found_.bytes) + " bytes that became one of " +
                              std::to_string(now.bytes) + " while it was read");
  if (is_damaged) refuse_changed(path_, "bytes that cannot be read: the file became shorter, or its disk failed");
  if (is_here && now != found_) refuse_changed(path_, "a file that was written to while it was read");
}

}  // namespace megacpp::base
