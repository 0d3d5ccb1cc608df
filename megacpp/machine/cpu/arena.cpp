// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::cpu {
namespace {

[[noreturn]] void refuse(int64_t bytes, int reason) {
  throw memory::OutOfMemory(base::Code::E2005,
                            {.where = "arena of one chip",
                             .got = std::string(std::strerror(reason)) + " for " + std::to_string(bytes) + " bytes",
                             .wanted = "the planned bytes in one piece",
                             .next = "reduce train.batch or train.sequence, or free memory on this machine"},
                            {.cls = memory::OomClass::host, .phase = "loading", .wanted = bytes, .limit = {}});
}

}  // namespace

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (static_cast<size_t>(bytes) + page - 1) / page * page;
  mapped_bytes_ = used + page;
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) refuse(bytes, errno);
  mapping_ = static_cast<std::byte*>(mapping);
  mprotect(mapping_ + used, page, PROT_NONE);
#ifdef MADV_HUGEPAGE
  madvise(mapping_, used, MADV_HUGEPAGE);
#endif
  begin_ = mapping_ + (used - static_cast<size_t>(bytes));
}

Arena::~Arena() { munmap(mapping_, mapped_bytes_); }

}  // namespace megacpp::runtime::cpu
