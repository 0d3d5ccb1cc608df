// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/packing_buffers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cpu {
namespace {

rlim_t address_space_in_use() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// Ends the process; 0 when buffers that the limit does not allow are refused and the limit is named.
[[noreturn]] void reserve_under_a_limit(int threads, rlim_t spare) {
  const rlim_t bytes = address_space_in_use() + spare;
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  try {
    const PackingBuffers buffers(threads);
  } catch (const base::Error& error) {
    const bool names_the_limit = error.problem().got.find("ulimit -v") != std::string::npos;
    std::_Exit(error.code() == base::Code::E2005 && names_the_limit ? 0 : 2);
  }
  std::_Exit(1);
}

TEST(PackingBuffersTest, ALimitOnAddressSpaceIsAnErrorAndNoHang) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  constexpr rlim_t kMegabyte = 1 << 20;
  EXPECT_EXIT(reserve_under_a_limit(64, 8 * kMegabyte), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(reserve_under_a_limit(64, 200 * kMegabyte), testing::ExitedWithCode(0), "");
}

TEST(PackingBuffersTest, MappedBuffersServeWhoeverComesLater) {
  { const PackingBuffers first(3); }
  const rlim_t before = address_space_in_use();
  const PackingBuffers again(2), more(1);
  EXPECT_EQ(address_space_in_use(), before);
}

}  // namespace
}  // namespace megacpp::runtime::cpu
