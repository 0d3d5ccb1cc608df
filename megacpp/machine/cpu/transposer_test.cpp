// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/transposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "megacpp/program/ops/tensor.h"

namespace megacpp::runtime::cpu {
namespace {

void expect_transposed(const ir::Shape& source, const std::vector<int64_t>& permutation) {
  SCOPED_TRACE(ir::to_string(source) + " by " + ir::to_string(permutation));
  const auto count = static_cast<size_t>(ir::num_elements(source));
  std::vector<float> from(count), to(count, -1.0F);
  std::iota(from.begin(), from.end(), 0.0F);
  ir::Shape result;
  for (const int64_t dim : permutation) result.push_back(source[static_cast<size_t>(dim)]);
  base::ThreadPool pool(2);
  Transposer(source, permutation).run(from.data(), to.data(), pool);
  size_t i = 0;
  ops::for_each_index(result, [&](const ir::Shape& index) {
    ir::Shape at(source.size());
    for (size_t d = 0; d < permutation.size(); ++d) at[static_cast<size_t>(permutation[d])] = index[d];
    ASSERT_EQ(to[i++], from[static_cast<size_t>(ops::flat_index(at, source))]);
  });
}

TEST(TransposerTest, EveryPermutationOfOddSizes) {
  for (const ir::Shape& source :
       {ir::Shape{5}, {3, 7}, {2, 3, 5}, {3, 1, 4}, {2, 3, 4, 5}, {1, 1, 1}, {2, 1, 3, 1, 2}}) {
    std::vector<int64_t> permutation(source.size());
    std::iota(permutation.begin(), permutation.end(), int64_t{0});
    do {
      expect_transposed(source, permutation);
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TEST(TransposerTest, SizesThatOneThreadDoesNotTakeAlone) {
  expect_transposed({130, 257}, {1, 0});
  expect_transposed({4, 65, 6, 33}, {0, 2, 1, 3});
}

TEST(TransposerTest, ScalarAndEmptyAreLegal) {
  expect_transposed({}, {});
  expect_transposed({3, 0}, {1, 0});
}

}  // namespace
}  // namespace megacpp::runtime::cpu
