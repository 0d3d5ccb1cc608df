// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/algorithm_search.h"

#include <gtest/gtest.h>

namespace megacpp::runtime::cuda {
namespace {

TEST(AlgorithmSearchTest, RunsCountHowTheirProductsWereFound) {
  std::map<std::string, LtChoice> choices;
  choices["a"] = {.origin = LtOrigin::kept, .seconds = 1};
  choices["b"] = {.origin = LtOrigin::searched, .cause = "none is kept", .seconds = 1};
  choices["c"] = {.origin = LtOrigin::searched, .cause = "none is kept", .seconds = 1};
  choices["d"] = {.origin = LtOrigin::unsearched, .cause = "none is kept, and no memory was left to search"};
  choices["e"] = {.origin = LtOrigin::small};
  Counters counters;
  count_choices(choices, counters);
  EXPECT_EQ(counters.cache_hits, 1);
  EXPECT_EQ(counters.compiles, (std::map<std::string, int64_t>{
                                   {"product searched: none is kept", 2},
                                   {"product not searched: none is kept, and no memory was left to search", 1}}));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
