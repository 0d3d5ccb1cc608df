// SPDX-License-Identifier: Apache-2.0
// Where runs lie is tested by the conformance tests of every transport; here is what those cannot see.
#include "megacpp/machine/collectives/runs.h"

#include <gtest/gtest.h>

namespace megacpp::collectives {
namespace {

TEST(RunsTest, SlicesFollowEachOtherAndHaveAllElements) {
  for (const int64_t elements : {0, 1, 63, 64, 65, 1000, 4097})
    for (const int64_t members : {1, 2, 3, 8}) {
      const Call call = {.kind = Kind::all_reduce, .parts = {{.shape = {elements}}}, .where = "x"};
      int64_t next = 0;
      for (int64_t index = 0; index < members; ++index) {
        const Slice slice = slice_of(elements, index, members);
        EXPECT_EQ(slice.first, next);
        EXPECT_GE(slice.count, 0);
        EXPECT_LE(slice.count * 4, term_bytes(call, 0, members)) << "a term has room for every slice";
        next = slice.first + slice.count;
      }
      EXPECT_EQ(next, elements);
    }
}

TEST(RunsTest, TermsLieSideBySide) {
  const Call call = {.kind = Kind::reduce_scatter,
                     .dtype = ir::DType::bf16,
                     .parts = {{.shape = {2, 6}, .dim = 1}, {.shape = {0, 3}, .dim = 1}, {.shape = {9}}},
                     .where = "x"};
  int64_t next = 0;
  for (size_t part = 0; part < call.parts.size(); ++part)
    for (int64_t from = 0; from < 3; ++from) {
      const Pair pair = {.from = from, .to = 1, .members = 3};
      EXPECT_EQ(term_offset(call, part, from, 3), next);
      EXPECT_EQ(runs_between(call, part, pair).bytes(), term_bytes(call, part, 3));
      next += term_bytes(call, part, 3);
    }
  EXPECT_EQ(next, terms_bytes(call, 3));
  EXPECT_EQ(next, 2 * (12 + 9)) << "as many bytes as the operands have";
}

TEST(RunsTest, OnlyReductionsNeedTerms) {
  for (const Kind kind : {Kind::all_gather, Kind::all_to_all, Kind::permute, Kind::send, Kind::recv}) {
    const Call call = {.kind = kind, .parts = {{.shape = {8, 8}}}, .where = "x"};
    EXPECT_EQ(terms_bytes(call, 4), 0);
  }
}

TEST(RunsTest, APermutationNeedsOneMemberAlone) {
  const Call call = {.kind = Kind::permute, .shift = -1, .parts = {{.shape = {3, 5}}}, .where = "x"};
  for (int64_t from = 0; from < 4; ++from) {
    const int64_t bytes = runs_between(call, 0, {.from = from, .to = 2, .members = 4}).bytes();
    EXPECT_EQ(bytes, from == 3 ? 60 : 0);
  }
}

}  // namespace
}  // namespace megacpp::collectives
