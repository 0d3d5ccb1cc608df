// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_search.h"

#include <gtest/gtest.h>

namespace megacpp::runtime::cuda {
namespace {

TEST(AlgorithmSearchTest, RunsSayHowTheirProductsWereFound) {
  std::map<std::string, LtChoice> choices;
  EXPECT_EQ(choices_text(choices), "");
  choices["a"].origin = LtOrigin::kept;
  choices["b"].origin = LtOrigin::searched;
  choices["b"].cause = "none is kept";
  choices["c"] = choices["b"];
  choices["d"].origin = LtOrigin::unsearched;
  choices["d"].cause = "none is kept, and no memory was left to search";
  choices["e"].origin = LtOrigin::small;
  choices["f"].origin = LtOrigin::shared;
  EXPECT_EQ(choices_text(choices),
            "algorithms of products: 1 chosen elsewhere in the run; 1 kept; "
            "1 not searched, since none is kept, and no memory was left to search; "
            "2 searched, since none is kept; 1 too small to search");
}

TEST(AlgorithmSearchTest, SearchesShareTheirTimeEvenlyAndByWork) {
  EXPECT_DOUBLE_EQ(search_share({.seconds_left = 4, .searches_left = 1, .flops = 3, .flops_left = 3}), 4);
  EXPECT_DOUBLE_EQ(search_share({.seconds_left = 4, .searches_left = 2, .flops = 3, .flops_left = 4}), 2.5);
  EXPECT_DOUBLE_EQ(search_share({.seconds_left = 1.5, .searches_left = 1, .flops = 1, .flops_left = 1}), 1.5)
      << "the rest is the last one's";
  EXPECT_EQ(search_share({.seconds_left = -0.5, .searches_left = 2, .flops = 1, .flops_left = 2}), 0);
  EXPECT_EQ(search_share({.seconds_left = 4, .searches_left = 2, .flops = 0, .flops_left = 0}), 2)
      << "products without work share evenly";
}

// How they were found is no matter of the bits.
TEST(AlgorithmSearchTest, TheHashIsOfProductsAndAlgorithmsAlone) {
  std::map<std::string, LtChoice> choices;
  choices["a"].algorithm.data = {1, 2, 3};
  std::map<std::string, LtChoice> kept = choices, other = choices, more = choices;
  kept["a"].origin = LtOrigin::kept;
  other["a"].algorithm.data[7] = 1;
  more["b"] = choices["a"];
  EXPECT_EQ(choices_hash(kept), choices_hash(choices));
  EXPECT_NE(choices_hash(other), choices_hash(choices));
  EXPECT_NE(choices_hash(more), choices_hash(choices));
  EXPECT_EQ(choices_hash(choices).size(), 16U);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
