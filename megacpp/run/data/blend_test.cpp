// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/blend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/error.h"

namespace megacpp::data {
namespace {

/// Sample n holds n in every token.
class Counting : public TokenSource {
 public:
  explicit Counting(int32_t base) : base_(base) {}
  int64_t sequences(const Draw&, int64_t) const override { return 100; }
  void read(const Draw&, int64_t sample, std::span<int32_t> tokens, std::span<int32_t>) const override {
    for (int32_t& token : tokens) token = base_ + static_cast<int32_t>(sample);
  }
  int64_t vocabulary() const override { return 0; }
  uint64_t fingerprint() const override { return static_cast<uint64_t>(base_); }
  std::string describe() const override { return "numbers"; }

 private:
  int32_t base_;
};

Blend blend_of(const std::vector<double>& weights) {
  std::vector<Blend::Part> parts;
  for (const double weight : weights)
    parts.push_back({std::make_unique<Counting>(static_cast<int32_t>(parts.size()) * 1000000), weight});
  return Blend(std::move(parts));
}

TEST(BlendTest, EverySourceHasItsShareAtEveryMoment) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1}, {1, 1}, {0.7, 0.2, 0.1}, {3, 1e-3, 2}, {1, 1, 1, 1, 1, 1, 1}, {1e9, 1, 17.3}}) {
    const Blend blend = blend_of(weights);
    double total = 0;
    for (const double weight : weights) total += weight;
    std::vector<int64_t> taken(weights.size(), 0);
    for (int64_t n = 0; n < 3000; ++n) {
      const Blend::Choice choice = blend.choose(n);
      ASSERT_EQ(choice.sample, taken[choice.source]) << "samples of a source come in order, none left out; n " << n;
      ++taken[choice.source];
      for (size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / total, due = share * static_cast<double>(n + 1);
        ASSERT_LE(std::abs(static_cast<double>(taken[i]) - due), 0.51 + share * static_cast<double>(weights.size()) / 2)
            << "source " << i << " at " << n;
      }
    }
  }
}

TEST(BlendTest, AnySampleIsReachedWithoutThoseBeforeIt) {
  const Blend blend = blend_of({0.7, 0.2, 0.1});
  const int64_t far = int64_t{1} << 40;
  std::vector<int64_t> taken;
  for (size_t i = 0; i < 3; ++i) taken.push_back(-1);
  for (int64_t n = far; n < far + 100; ++n) {
    const Blend::Choice choice = blend.choose(n);
    if (taken[choice.source] >= 0) {
      EXPECT_EQ(choice.sample, taken[choice.source] + 1);
    }
    taken[choice.source] = choice.sample;
  }
  EXPECT_NEAR(static_cast<double>(taken[0]), 0.7 * static_cast<double>(far + 100), 3);
}

TEST(BlendTest, ReadsTheChosenSampleOfTheChosenSource) {
  const Blend blend = blend_of({1, 3});
  std::vector<int32_t> tokens(4);
  for (int64_t n = 0; n < 50; ++n) {
    const Blend::Choice choice = blend.choose(n);
    blend.read({}, n, tokens, {});
    EXPECT_EQ(tokens[0], static_cast<int64_t>(choice.source) * 1000000 + choice.sample);
  }
}

TEST(BlendTest, WeightsAreInTheFingerprintAndOnlyTheirRatioCounts) {
  EXPECT_EQ(blend_of({1, 3}).fingerprint(), blend_of({2, 6}).fingerprint());
  EXPECT_NE(blend_of({1, 3}).fingerprint(), blend_of({1, 2}).fingerprint());
}

TEST(BlendTest, AnEpochEndsWhenTheSlowestSourceIsThrough) {
  EXPECT_EQ(blend_of({1, 3}).sequences({}, 8), 400);
  EXPECT_THROW(blend_of({}), base::Error);
}

}  // namespace
}  // namespace megacpp::data
