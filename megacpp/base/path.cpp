// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/path.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "megacpp/base/error.h"

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

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  if (error && !is_absence(error.value())) refuse_path(folder, error.value());
  std::ranges::sort(entries);
  return entries;
}

}  // namespace megacpp::base
