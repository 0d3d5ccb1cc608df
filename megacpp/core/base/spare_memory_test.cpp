// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/spare_memory.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "tests/support/no_memory.h"

namespace megacpp::base {
namespace {

// Ends the process; 0 where a value could be destroyed while memory had run out.
[[noreturn]] void destroy_without_memory() {
  keep_spare_memory();
  Json value = Json::array();
  try {
    Json inner = Json::array();
    for (int i = 0; i < 1000; ++i) inner.push_back({{"name", std::string(100, 'x')}});
    testing_support::leave_no_memory();
    value.push_back(std::string(100'000, 'x'));  // throws, and `inner` goes
    std::_Exit(1);
  } catch (const std::bad_alloc&) {
    value.push_back("memory ran out");
  }
  std::_Exit(0);
}

TEST(SpareMemoryTest, WhatIsDestroyedWhenMemoryRunsOutMayAllocate) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  EXPECT_EXIT(destroy_without_memory(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace megacpp::base
