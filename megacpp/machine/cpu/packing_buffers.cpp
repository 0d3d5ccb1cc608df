// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/packing_buffers.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/runtime/blas_kernels.h"

// Exported by the library, in none of its headers.
extern "C" void* blas_memory_alloc(int position);
extern "C" void blas_memory_free(void* buffer);

namespace megacpp::runtime::cpu {
namespace {

constexpr size_t kLeastBuffer = size_t{1} << 20;
constexpr size_t kLargestBuffer = size_t{128} << 20;  // of all processors that OpenBLAS knows
// OpenBLAS has slots for twice the threads it was built for. More threads than this are not in a call at once.
constexpr int kMostReserved = 64;

struct Reserved {
  std::mutex mutex;
  int threads = 0;                       // of all live objects
  int buffers = 0;                       // mapped
  size_t buffer_bytes = kLargestBuffer;  // exact once one was mapped
};

Reserved& reserved() {
  static Reserved one;
  return one;
}

size_t mapped_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

std::string limit_text() {
  constexpr rlim_t kKibibyte = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "no limit on address space";
  return "ulimit -v " + std::to_string(limit.rlim_cur / kKibibyte) + ", of which " +
         std::to_string(mapped_bytes() / kKibibyte) + " are in use";
}

void require_address_space(size_t bytes, int threads) {
  void* const probe =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe != MAP_FAILED) {
    ::munmap(probe, bytes);
    return;
  }
  const std::string reason = std::strerror(errno);
  base::raise(base::Code::E2005,
              {.where = "buffers of matrix products",
               .got = reason + " for " + std::to_string(bytes) + " bytes; " + limit_text(),
               .wanted = "address space for " + std::to_string(threads) + " such buffers, one for each thread",
               .next = "raise the limit on address space (ulimit -v), or use fewer chips or train.threads"});
}

// Holding all at once makes the library map those that are missing.
void map_buffers(Reserved& all, int wanted) {
  struct Held {
    std::vector<void*> buffers;
    ~Held() {
      for (void* buffer : buffers) blas_memory_free(buffer);
    }
  } held;
  held.buffers.reserve(static_cast<size_t>(wanted));
  for (int i = 0; i < wanted; ++i) {
    if (i >= all.buffers) require_address_space(all.buffer_bytes, wanted);
    const size_t before = mapped_bytes();
    held.buffers.push_back(blas_memory_alloc(0));
    const size_t grown = mapped_bytes() - before;  // nothing where the library had one left from elsewhere
    if (grown >= kLeastBuffer) all.buffer_bytes = std::min(grown, kLargestBuffer);
    all.buffers = std::max(all.buffers, i + 1);
  }
}

}  // namespace

PackingBuffers::PackingBuffers(int threads) : threads_(threads) {
  blas_kernels();
  Reserved& all = reserved();
  const std::lock_guard lock(all.mutex);
  const int wanted = std::min(all.threads + threads, kMostReserved);
  if (wanted > all.buffers) map_buffers(all, wanted);
  all.threads += threads;
}

PackingBuffers::~PackingBuffers() {
  Reserved& all = reserved();
  const std::lock_guard lock(all.mutex);
  all.threads -= threads_;
}

}  // namespace megacpp::runtime::cpu
