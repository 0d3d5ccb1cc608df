// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/path.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

[[noreturn]] void refuse_path(const std::filesystem::path& path, int error) {
  raise(Code::E1008, {.where = path.empty() ? "an empty path" : path.string(),
                      .got = std::string("cannot inspect: ") + std::strerror(error),
                      .wanted = "a path that can be followed",
                      .next = "check the path, its links and its permissions"});
}

bool is_absence(int error) { return error == ENOENT || error == ENOTDIR; }

/// Nothing where nothing has this name.
std::optional<struct stat> inspect(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (!is_absence(errno)) refuse_path(path, errno);
  return std::nullopt;
}

}  // namespace

bool exists(const std::filesystem::path& path) { return inspect(path).has_value(); }

bool is_folder(const std::filesystem::path& path) {
  const std::optional<struct stat> status = inspect(path);
  return status && S_ISDIR(status->st_mode);
}

int64_t file_bytes(const std::filesystem::path& path) {
  const std::optional<struct stat> status = inspect(path);
  if (!status) refuse_path(path, ENOENT);
  return status->st_size;
}

std::filesystem::path absolute(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) refuse_path(path, error.value());
  return whole;
}

std::filesystem::path canonical(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::canonical(path, error);
  if (error) refuse_path(path, error.value());
  return whole;
}

// Not by std::filesystem::directory_iterator: that of libstdc++ ends the program where memory runs out.
FolderEntries read_folder(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  FolderEntries found;
  int error = stream == nullptr ? errno : 0;
  while (error == 0) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    error = errno;
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") found.entries.push_back(folder / name);
  }
  if (error == ENOMEM) throw std::bad_alloc();
  found.error = std::error_code(error, std::generic_category());
  std::ranges::sort(found.entries);
  return found;
}

std::error_code remove_tree(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  const std::error_code why(errno, std::generic_category());  // a folder is EISDIR, or EPERM as POSIX has it
  const FolderEntries found = read_folder(path);
  if (found.error) return why;
  std::error_code first;
  for (const std::filesystem::path& entry : found.entries) {
    const std::error_code error = remove_tree(entry);
    if (!first) first = error;
  }
  if (!first && ::rmdir(path.c_str()) != 0 && errno != ENOENT) first = std::error_code(errno, std::generic_category());
  return first;
}

void try_to_remove_tree(const std::filesystem::path& path) noexcept {
  try {
    remove_tree(path);
  } catch (const std::bad_alloc&) {
    return;
  }
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  FolderEntries found = read_folder(folder);
  if (found.error && !is_absence(found.error.value())) refuse_path(folder, found.error.value());
  return std::move(found.entries);
}

}  // namespace megacpp::base
