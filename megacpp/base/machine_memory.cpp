// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/machine_memory.h"

#include <sys/sysinfo.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "megacpp/base/error.h"

namespace megacpp::base {

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

}  // namespace megacpp::base
