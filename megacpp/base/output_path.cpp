// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/output_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "megacpp/base/error.h"

namespace megacpp::base {
namespace {

constexpr int kMaxLinks = 40;  // as the system has it

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
  raise(Code::E3001, {.where = path.empty() ? "an empty path" : path.string(),
                      .got = std::string(action) + ": " + std::strerror(error),
                      .wanted = "a path that can be written",
                      .next = "check the path, its permissions and the free space"});
}

OutputPath resolve_output(const std::filesystem::path& path) {
  if (path.empty()) fail_writing(path, "cannot open", ENOENT);
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_writing(path, "cannot write", EISDIR);
  // /dev/stdout leads through /proc to what has no name of its own: only files are looked for.
  if (exists && !S_ISREG(status.st_mode)) return {.target = path, .is_file = false};
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
