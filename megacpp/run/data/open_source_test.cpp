// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/open_source.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"

namespace megacpp::data {
namespace {

const std::string kDatasets = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/datasets/";

base::Code opening_code(const recipe::Data& data) {
  try {
    open_source(data);
  } catch (const base::Error& error) {
    return error.code();
  }
  return base::Code::E9001;
}

TEST(OpenSourceTest, ADatasetIsABlendOfOne) {
  const auto source = open_source({.blend = {kDatasets + "int32"}});
  EXPECT_EQ(source->sequences({}, 3), 5);
  EXPECT_NE(source->describe().find("6 documents"), std::string::npos);
}

TEST(OpenSourceTest, WeightsStandBehindTheLastEqualsSign) {
  const auto source = open_source({.blend = {kDatasets + "int32=3", kDatasets + "uint16=1"}});
  EXPECT_EQ(source->describe().find("75.0%"), 0u);
}

TEST(OpenSourceTest, TextIsTheDefault) {
  EXPECT_EQ(open_source({.text = {std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"}})->vocabulary(), 256);
}

TEST(OpenSourceTest, BadBlendsAreRefused) {
  for (const char* weight : {"0", "-1", "x", "inf", "nan", "1x", ""})
    EXPECT_EQ(opening_code({.blend = {kDatasets + "int32=" + weight}}), base::Code::E1003) << weight;
  EXPECT_EQ(opening_code({.text = {"a.txt"}, .blend = {kDatasets + "int32"}}), base::Code::E1003);
  EXPECT_EQ(opening_code({.blend = {kDatasets + "no_such"}}), base::Code::E1008);
}

}  // namespace
}  // namespace megacpp::data
