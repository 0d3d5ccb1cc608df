// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/custom_call.h"

#include <gtest/gtest.h>

#include <set>

namespace megacpp::emit {
namespace {

// A primitive has a StableHLO form of its own, so a call would be a second one.
TEST(CustomCallTest, EveryRecordIsWholeAndOfACompositeThatOpsDoNotWrite) {
  std::set<std::string_view> seen;
  for (const CustomCall& call : custom_calls()) {
    SCOPED_TRACE(call.op);
    EXPECT_TRUE(seen.insert(call.op).second) << "listed twice";
    const ops::OpDef* def = ops::find_op(call.op);
    ASSERT_NE(def, nullptr) << "no such op";
    EXPECT_TRUE(def->is_composite());
    EXPECT_FALSE(def->stablehlo);
    EXPECT_TRUE(call.takes != nullptr && call.write != nullptr);
    EXPECT_EQ(find_custom_call(call.op), &call);
  }
  EXPECT_FALSE(seen.empty());
  EXPECT_EQ(find_custom_call("dot"), nullptr);
  EXPECT_EQ(find_custom_call(""), nullptr);
}

}  // namespace
}  // namespace megacpp::emit
