// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

/// The number behind a word of a file of the system's; nothing where there is no such file or word.
std::optional<int64_t> number_behind(const std::filesystem::path& file, std::string_view name) {
  std::ifstream words(file);
  int64_t number = 0;
  for (std::string word; words >> word;)
    if (word == name) return words >> number ? std::optional(number) : std::nullopt;
  return std::nullopt;
}

}  // namespace

int64_t machine_memory_bytes() {
  struct sysinfo machine {};
  MEGACPP_CHECK(::sysinfo(&machine) == 0) << "sysinfo: " << std::strerror(errno);
  return static_cast<int64_t>(machine.totalram) * machine.mem_unit;
}

std::optional<int64_t> container_memory_limit(const std::filesystem::path& root) {
  std::ifstream cgroup(root / "sys/fs/cgroup/memory.max");  // a number, or "max"
  int64_t bytes = 0;
  return cgroup >> bytes ? std::optional(bytes) : std::nullopt;
}

int64_t available_memory_bytes(const std::filesystem::path& root) {
  int64_t available = std::numeric_limits<int64_t>::max();
  if (const auto kibibytes = number_behind(root / "proc/meminfo", "MemAvailable:")) available = *kibibytes * 1024;
  const std::optional<int64_t> limit = container_memory_limit(root);
  if (!limit) return available;
  std::ifstream file(root / "sys/fs/cgroup/memory.current");
  int64_t used = 0;
  if (!(file >> used)) used = 0;
  used -= number_behind(root / "sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
  return std::min(available, *limit - std::clamp(used, int64_t{0}, *limit));
}

}  // namespace megacpp::base
