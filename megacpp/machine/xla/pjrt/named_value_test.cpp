// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/named_value.h"

#include <gtest/gtest.h>

namespace megacpp::runtime::pjrt {
namespace {

const std::vector<NamedValue> kValues = {
    {"i", int64_t{7}}, {"s", "text"}, {"b", true}, {"f", 0.5f}, {"l", std::vector<int64_t>{1, 2}}};

TEST(NamedValueTest, IsFoundByNameAndType) {
  EXPECT_EQ(*find<int64_t>(kValues, "i"), 7);
  EXPECT_EQ(*find<std::string>(kValues, "s"), "text");
  EXPECT_TRUE(*find<bool>(kValues, "b"));
  EXPECT_EQ(find<std::string>(kValues, "i"), nullptr);
  EXPECT_EQ(find<int64_t>(kValues, "none"), nullptr);
}

TEST(NamedValueTest, PrintsWithItsName) {
  std::string text;
  for (const NamedValue& value : kValues) text += to_string(value) + " ";
  EXPECT_EQ(text, "i=7 s=text b=true f=0.5 l=[1,2] ");
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
