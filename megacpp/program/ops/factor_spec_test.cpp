// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/factor_spec.h"

#include <gtest/gtest.h>

#include <sstream>

#include "megacpp/core/base/error.h"

namespace megacpp::ops {
namespace {

Types types_of(std::vector<ir::Shape> shapes) {
  Types types;
  for (ir::Shape& shape : shapes) types.push_back({ir::DType::f32, std::move(shape)});
  return types;
}

// "b=4; h=3 sum; ": every factor with its size, and its kind unless parallel.
std::string describe(const Factors& factors) {
  std::ostringstream text;
  for (const Factor& factor : factors.factors) {
    text << factor.name << "=" << factor.size;
    if (factor.kind == FactorKind::reduction) text << " sum";
    if (factor.kind == FactorKind::replicated) text << " whole";
    text << "; ";
  }
  return text.str();
}

Factors factors(std::vector<ir::Shape> operands, std::vector<ir::Shape> results, std::string_view spec,
                std::string_view replicated = "") {
  const Types in = types_of(std::move(operands)), out = types_of(std::move(results));
  const ir::Attrs attrs;
  return factors_from({.operands = in, .results = out, .attrs = attrs}, spec, replicated);
}

TEST(FactorSpecTest, NamesAbsentFromResultsAreReductions) {
  const Factors f = factors({{2, 5, 3}, {3, 7}}, {{2, 5, 7}}, "b s h, h f -> b s f");
  EXPECT_EQ(describe(f), "b=2; s=5; h=3 sum; f=7; ");
  EXPECT_EQ(f.operands, (std::vector<DimFactors>{{{0}, {1}, {2}}, {{2}, {3}}}));
  EXPECT_EQ(f.results, (std::vector<DimFactors>{{{0}, {1}, {3}}}));
}

TEST(FactorSpecTest, ProductsLearnTheirUnknownFromTheRest) {
  const Factors f = factors({{2, 5, 6, 4}, {2, 9, 3, 4}}, {{2, 5, 6, 4}}, "b s (k g) d, b t k d -> b s (k g) d");
  EXPECT_EQ(describe(f), "b=2; s=5; d=4; t=9 sum; k=3; g=2; ");
  EXPECT_EQ(f.results[0][2], (std::vector<int>{4, 5}));
}

TEST(FactorSpecTest, ListedNamesStayWhole) {
  EXPECT_EQ(describe(factors({{2, 5}}, {{2}}, "b t -> b", "t")), "b=2; t=5 whole; ");
  EXPECT_EQ(describe(factors({{2, 5}}, {{2, 5}}, "b t -> b t", "b t")), "b=2 whole; t=5 whole; ");
}

TEST(FactorSpecTest, StarIsWholeOfAnyRank) {
  for (const ir::Shape& shape : {ir::Shape{}, ir::Shape{9}, ir::Shape{9, 8}}) {
    const Factors f = factors({{2, 3}, shape}, {{2, 3}}, "b h, * -> b h");
    EXPECT_EQ(f.operands[1].size(), shape.size());
    for (size_t i = 2; i < f.factors.size(); ++i) EXPECT_EQ(f.factors[i].kind, FactorKind::replicated);
  }
}

TEST(FactorSpecTest, ScalarsAndUnitDimensionsHaveNoFactors) {
  const Factors f = factors({{2, 1}, {}}, {{2, 1}}, "b (), -> b ()");
  EXPECT_EQ(describe(f), "b=2; ");
  EXPECT_TRUE(f.operands[0][1].empty());
  EXPECT_TRUE(f.operands[1].empty());
  EXPECT_EQ(describe(factors({{1}}, {{1}}, "() -> ()")), "");
}

TEST(FactorSpecTest, OptionalLastOperandsMayBeMissing) {
  EXPECT_EQ(describe(factors({{2, 3}}, {{2, 3}}, "b h, h -> b h")), "b=2; h=3; ");
}

TEST(FactorSpecTest, SpecsThatDoNotFitAreRefused) {
  EXPECT_THROW(factors({{2, 3}, {4}}, {{2}}, "b h, h -> b"), base::Error) << "h has two sizes";
  EXPECT_THROW(factors({{2, 3}}, {{2}}, "b -> b"), base::Error) << "rank";
  EXPECT_THROW(factors({{2, 3}, {2}}, {{2}}, "b h -> b"), base::Error) << "operands";
  EXPECT_THROW(factors({{2, 3}}, {{2}}, "b h, b"), base::Error) << "no arrow";
  EXPECT_THROW(factors({{2}, {3}}, {{7}}, "a, b -> (a b)"), base::Error) << "2 * 3 is not 7";
  EXPECT_THROW(factors({{2}, {7}}, {{7}}, "a, (a b) -> (a b)"), base::Error) << "2 does not divide 7";
  EXPECT_THROW(factors({{6}}, {{6}}, "(a b) -> (a b)"), base::Error) << "two unknown factors";
  EXPECT_THROW(factors({{2}}, {{2}}, "() -> ()"), base::Error) << "no factors are a dimension of one";
}

TEST(FactorSpecTest, NumberedNamesAreReadyToJoin) {
  EXPECT_EQ(numbered_names("b", 2), "b0 b1 ");
  EXPECT_EQ(numbered_names("b", 0), "");
}

TEST(FactorSpecTest, ElementwiseDimensionsAreParallel) {
  const Types operands = types_of({{2, 3}, {2, 3}}), results = types_of({{2, 3}});
  const ir::Attrs attrs;
  const Factors f = elementwise_factors({.operands = operands, .results = results, .attrs = attrs});
  EXPECT_EQ(describe(f), "d0=2; d1=3; ");
  EXPECT_EQ(f.operands, (std::vector<DimFactors>{{{0}, {1}}, {{0}, {1}}}));
  EXPECT_EQ(f.results, (std::vector<DimFactors>{{{0}, {1}}}));
}

}  // namespace
}  // namespace megacpp::ops
