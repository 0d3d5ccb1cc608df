// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/padding.h"

#include <gtest/gtest.h>

#include <numeric>
#include <regex>
#include <sstream>

namespace megacpp::emit {
namespace {

using ops::HloValue;
using ops::HloWriter;

const ir::Mesh kUnevenMesh({{"a", 2}, {"b", 3}});

// What a writer wrote, as "op shape" for each line.
std::vector<std::string> steps_of(const HloWriter& writer) {
  static const std::regex line(R"re("stablehlo\.(\w+)".*-> \(tensor<([0-9x]*)xf32>\))re");
  std::vector<std::string> steps;
  std::istringstream lines(writer.text());
  std::smatch found;
  for (std::string text; std::getline(lines, text);)
    if (std::regex_search(text, found, line)) steps.push_back(found[1].str() + " " + found[2].str());
  return steps;
}

using Steps = std::vector<std::string>;

struct Written {
  Steps joined, padded;
};

Written written_padding(const ir::Shape& shape, const std::string& text) {
  const ir::Sharding sharding = ir::parse_sharding(text, kUnevenMesh);
  const ir::Shape padded = padded_shape(shape, sharding, kUnevenMesh);
  int64_t channel = 1;
  HloWriter in(kUnevenMesh, channel), out(kUnevenMesh, channel);
  EXPECT_EQ(without_padding(in, {"%x", {"f32", padded}}, shape, sharding).type.shape, shape);
  EXPECT_EQ(with_padding(out, {"%x", {"f32", shape}}, sharding).type.shape, padded);
  return {steps_of(in), steps_of(out)};
}

TEST(PaddingTest, SizesThatDivideStayAsTheyAre) {
  const Written none = written_padding({6, 12}, "a,b");
  EXPECT_EQ(none.joined, Steps{});
  EXPECT_EQ(none.padded, Steps{});
}

TEST(PaddingTest, OneAxisLeavesPaddingAtTheEnd) {
  const Written one = written_padding({5, 7}, "a,b");
  EXPECT_EQ(one.joined, (Steps{"slice 5x9", "slice 5x7"}));
  EXPECT_EQ(one.padded, (Steps{"pad 6x7", "pad 6x9"}));
}

// 7 rows over a: 4 and 3; each share over b: 2, 2 and none, or 2, 1 and none.
TEST(PaddingTest, AxesInTurnLeavePaddingAtTheEndOfEachShare) {
  const Written both = written_padding({7}, "a+b");
  EXPECT_EQ(both.joined, (Steps{"reshape 2x6", "slice 2x4", "reshape 8", "slice 7"}));
  EXPECT_EQ(both.padded, (Steps{"pad 8", "reshape 2x4", "pad 2x6", "reshape 12"}));
}

// The real rows of each chip, in turn, are the rows of the whole: what is cut away is what local_range calls padding.
TEST(PaddingTest, WhatIsCutAwayIsWhatChipsHoldAsPadding) {
  for (const char* text : {"a", "b", "a+b", "b+a"})
    for (int64_t size = 1; size < 14; ++size) {
      const ir::Sharding sharding = ir::parse_sharding(text, kUnevenMesh);
      const int64_t local = ir::local_size(size, sharding.dims[0], kUnevenMesh);
      std::vector<int64_t> rows(static_cast<size_t>(padded_shape({size}, sharding, kUnevenMesh)[0]), -1);
      for (int64_t chip = 0; chip < kUnevenMesh.chips(); ++chip) {
        const ir::LocalRange real = ir::local_range(size, sharding.dims[0], kUnevenMesh, chip);
        const int64_t first = kUnevenMesh.index_in_group(chip, sharding.dims[0]) * local;
        for (int64_t i = 0; i < real.count; ++i) rows[static_cast<size_t>(first + i)] = real.first + i;
      }
      for (const std::string& step : written_padding({size}, text).joined) {
        if (step.rfind("slice", 0) != 0) continue;
        const size_t by = step.find('x'), shares = by == std::string::npos ? 1 : std::stoul(step.substr(6));
        const size_t kept = std::stoul(step.substr(by == std::string::npos ? 6 : by + 1)), had = rows.size() / shares;
        std::vector<int64_t> left;
        for (size_t i = 0; i < rows.size(); ++i)
          if (i % had < kept) left.push_back(rows[i]);
        rows = left;
      }
      std::vector<int64_t> wanted(static_cast<size_t>(size));
      std::iota(wanted.begin(), wanted.end(), 0);
      EXPECT_EQ(rows, wanted) << size << " over " << text;
    }
}

}  // namespace
}  // namespace megacpp::emit
