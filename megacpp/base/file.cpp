// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/base/machine_memory.h"
#include "megacpp/base/output_path.h"

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

/// Never waits: what turns out to be a FIFO without a writer is refused by regular_size().
int open_for_reading(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) fail_reading(path, "cannot open", errno);
  return fd;
}

/// Errors speak of the file the user `named`, not of the temporary one.
int open_for_writing(const std::filesystem::path& path, int flags, const std::filesystem::path& named) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) fail_writing(named, "cannot open", errno);
  return fd;
}

/// Only files have an end: a device may give bytes for ever, a FIFO none.
size_t regular_size(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_reading(path, "cannot inspect", errno);
  if (S_ISDIR(status.st_mode)) fail_reading(path, "cannot read", EISDIR);
  if (!S_ISREG(status.st_mode))
    fail_reading(path, S_ISFIFO(status.st_mode) ? "a FIFO" : S_ISSOCK(status.st_mode) ? "a socket" : "a device");
  return static_cast<size_t>(status.st_size);
}

void write_all(const Descriptor& file, const std::filesystem::path& path, std::span<const std::byte> part) {
  while (!part.empty()) {
    const ssize_t written = ::write(file.get(), part.data(), part.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_writing(path, "cannot write", errno);
    part = part.subspan(static_cast<size_t>(written));
  }
}

void write_and_sync(const std::filesystem::path& temporary, const std::filesystem::path& named,
                    std::span<const std::span<const std::byte>> parts) {
  const Descriptor file(open_for_writing(temporary, O_CREAT | O_TRUNC, named));
  for (const auto part : parts) write_all(file, named, part);
  if (::fsync(file.get()) != 0) fail_writing(named, "cannot sync", errno);
}

/// Into a device or a FIFO, which must have its reader already; the writes themselves wait for it.
void write_through(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  const Descriptor file(open_for_writing(path, O_NONBLOCK | O_NOCTTY, path));
  if (::fcntl(file.get(), F_SETFL, 0) != 0) fail_writing(path, "cannot open", errno);
  for (const auto part : parts) write_all(file, path, part);
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
  const size_t size = regular_size(file, path);
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
  std::filesystem::path temporary = output.target;
  temporary += ".tmp" + std::to_string(::getpid());
  try {
    write_and_sync(temporary, path, parts);
    if (::rename(temporary.c_str(), output.target.c_str()) != 0) fail_writing(path, "cannot rename into place", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
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

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(open_for_reading(path));
  size_ = regular_size(file, path);
  if (size_ == 0) return;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_reading(path, "cannot map", errno);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace megacpp::base
