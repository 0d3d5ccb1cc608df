// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "megacpp/base/error.h"

namespace megacpp::base {
namespace {

[[noreturn]] void fail_reading(const std::filesystem::path& path, std::string_view action, int error) {
  raise(Code::E1008, {.where = path.string(),
                      .got = std::string(action) + ": " + std::strerror(error),
                      .wanted = "a readable file",
                      .next = "check the path and its permissions"});
}

[[noreturn]] void fail_writing(const std::filesystem::path& path, std::string_view action, int error) {
  raise(Code::E3001, {.where = path.string(),
                      .got = std::string(action) + ": " + std::strerror(error),
                      .wanted = "",
                      .next = "check the path, its permissions and the free space"});
}

/// An open file descriptor, closed on every way out.
class Descriptor {
 public:
  /// `named` is the file an error speaks of.
  Descriptor(const std::filesystem::path& path, int flags, const std::filesystem::path& named)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) (flags == O_RDONLY ? fail_reading : fail_writing)(named, "cannot open", errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

size_t regular_size(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_reading(path, "cannot inspect", errno);
  if (S_ISDIR(status.st_mode)) fail_reading(path, "cannot read", EISDIR);
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

/// Errors speak of the file the user `named`, not of the temporary one.
void write_and_sync(const std::filesystem::path& temporary, const std::filesystem::path& named,
                    std::span<const std::span<const std::byte>> parts) {
  const Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC, named);
  for (const auto part : parts) write_all(file, named, part);
  if (::fsync(file.get()) != 0) fail_writing(named, "cannot sync", errno);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY, path);
  std::string text;
  text.reserve(regular_size(file, path));
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
  std::filesystem::path temporary = path;
  temporary += ".tmp" + std::to_string(::getpid());
  try {
    write_and_sync(temporary, path, parts);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_writing(path, "cannot rename into place", errno);
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
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_writing(path, "cannot create the folder", error.value());
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY, path);
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
