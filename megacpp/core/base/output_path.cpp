// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/output_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

constexpr int kMaxLinks = 40;  // as the system has it

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& got) {
  raise(Code::E3001, {.where = path.empty() ? "an empty path" : path.string(),
                      .got = got,
                      .wanted = "a path that can be written",
                      .next = "check the path, its permissions and the free space"});
}

/// What replaces the file behind stdout, as /dev/stdout may lead to, would lose all that is printed.
void require_other_than_streams(const std::filesystem::path& path, const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status = {};
    if (::fstat(stream, &status) == 0 && status.st_dev == file.st_dev && status.st_ino == file.st_ino)
      refuse(path, "the file that standard output or standard error goes to");
  }
}

std::filesystem::path follow_links(const std::filesystem::path& path) {
  std::filesystem::path target = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    std::error_code error;
    if (!std::filesystem::is_symlink(target, error)) return target;
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) fail_writing(path, "cannot read the link", error.value());
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  fail_writing(path, "cannot follow links", ELOOP);
}

}  // namespace

void fail_writing(const std::filesystem::path& path, std::string_view action, int error) {
  refuse(path, std::string(action) + ": " + std::strerror(error));
}

OutputPath resolve_output(const std::filesystem::path& path) {
  if (path.empty()) fail_writing(path, "cannot open", ENOENT);
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_writing(path, "cannot write", EISDIR);
  // /dev/stdout leads through /proc to what has no name of its own: only files are looked for.
  if (exists && !S_ISREG(status.st_mode)) return {.target = path, .is_file = false};
  if (exists) require_other_than_streams(path, status);
  return {.target = follow_links(path)};
}

void require_writable(const std::filesystem::path& path) {
  const OutputPath output = resolve_output(path);
  if (!output.is_file) {
    if (::access(path.c_str(), W_OK) != 0) fail_writing(path, "cannot open", errno);
    return;
  }
  const std::filesystem::path folder = output.target.has_parent_path() ? output.target.parent_path() : ".";
  std::string probe = (folder / "megacpp.XXXXXX").string();
  const int file = ::mkostemp(probe.data(), O_CLOEXEC);
  if (file < 0) fail_writing(path, "cannot create it", errno);
  ::close(file);
  ::unlink(probe.c_str());
}

}  // namespace megacpp::base
