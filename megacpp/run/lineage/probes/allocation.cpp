// SPDX-License-Identifier: Apache-2.0
// Memory that is not only promised: mapped, written page by page and read back. In a child process, which the system
// ends where it has less than it said.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

constexpr size_t kAllocatedBytes = size_t{64} << 20;  // more than the arena of a chip that trains a tiny recipe
constexpr std::chrono::seconds kAllocationLimit(20);

std::string allocate(const Subject&) {
  void* const mapped = ::mmap(nullptr, kAllocatedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MEGACPP_REQUIRE(mapped != MAP_FAILED, E3002,
                  {.where = fmt::format("{} MiB", kAllocatedBytes >> 20),
                   .got = std::strerror(errno),
                   .wanted = "memory for the arena of a chip",
                   .next = "raise the process's limits (ulimit -v) or the container's"});
  auto* const words = static_cast<volatile uint64_t*>(mapped);
  const size_t count = kAllocatedBytes / sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) words[i] = i * 0x9E3779B97F4A7C15U;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += words[i] != i * 0x9E3779B97F4A7C15U;
  ::munmap(mapped, kAllocatedBytes);
  MEGACPP_REQUIRE(wrong == 0, E3002,
                  {.where = fmt::format("{} MiB", kAllocatedBytes >> 20),
                   .got = fmt::format("{} of {} words read back otherwise than written", wrong, count),
                   .wanted = "memory that keeps what is written",
                   .next = "test the machine's memory: it is broken"});
  return fmt::format("{} MiB written and read back", kAllocatedBytes >> 20);
}

}  // namespace

std::vector<Probe> allocation_probes() {
  return {{.name = "allocation", .group = "allocation", .time_limit = kAllocationLimit, .ask = allocate}};
}

}  // namespace megacpp::lineage
