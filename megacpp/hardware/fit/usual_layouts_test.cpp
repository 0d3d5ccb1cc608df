// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/usual_layouts.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

std::vector<LayoutChoice> chosen(const std::vector<LayoutChoice>& layouts, int64_t node) {
  std::vector<LayoutChoice> found;
  for (const size_t i : usual_layouts(layouts, node)) found.push_back(layouts[i]);
  return found;
}

TEST(UsualLayoutsTest, AreOneOfEachKind) {
  const LayoutChoice fsdp{.data = 64, .zero = 3}, plain{.data = 64, .zero = 1};
  const LayoutChoice tensor{.data = 8, .tensor = 8, .zero = 1}, tensor_fsdp{.data = 8, .tensor = 8, .zero = 3};
  const LayoutChoice narrow{.data = 16, .tensor = 4, .zero = 1}, wide{.data = 4, .tensor = 16, .zero = 3};
  const LayoutChoice experts{.data = 8, .expert = 8, .zero = 3}, few_experts{.data = 16, .expert = 4, .zero = 3};
  const LayoutChoice megatron{.data = 4, .tensor = 8, .pipeline = 2, .zero = 1};
  const LayoutChoice deep{.data = 2, .tensor = 8, .pipeline = 4, .zero = 1};
  const LayoutChoice split{.data = 32, .context = 2, .zero = 3};
  EXPECT_EQ(chosen({plain, fsdp, few_experts, experts, split, narrow, tensor, tensor_fsdp, wide, megatron, deep}, 8),
            (std::vector<LayoutChoice>{fsdp, experts, tensor, tensor_fsdp, megatron}));
}

TEST(UsualLayoutsTest, SharedOptimizersComeBeforeLayoutsWithoutZero) {
  const LayoutChoice tensor_alone{.data = 8, .tensor = 8, .zero = 0}, tensor{.data = 8, .tensor = 8, .zero = 1};
  const LayoutChoice alone{.data = 4, .tensor = 8, .pipeline = 2, .zero = 0};
  const LayoutChoice megatron{.data = 4, .tensor = 8, .pipeline = 2, .zero = 1};
  const LayoutChoice deep{.data = 2, .tensor = 8, .pipeline = 4, .zero = 1};
  EXPECT_EQ(chosen({tensor_alone, tensor, alone, megatron, deep}, 8), (std::vector<LayoutChoice>{tensor, megatron}));
  EXPECT_EQ(chosen({alone, deep}, 8), std::vector<LayoutChoice>{alone}) << "fewer stages count more";
}

TEST(UsualLayoutsTest, AreThoseThereAre) {
  const LayoutChoice plain{.data = 4, .zero = 1}, wide{.data = 1, .tensor = 4, .zero = 1};
  EXPECT_EQ(chosen({plain, wide}, 2), std::vector<LayoutChoice>{plain}) << "four are no node of two";
  EXPECT_EQ(chosen({wide}, 4), std::vector<LayoutChoice>{wide}) << "once, though two kinds name it";
  EXPECT_TRUE(chosen({}, 8).empty());
}

TEST(UsualLayoutsTest, ANodeHasItsDevices) {
  EXPECT_EQ(chips_of_node(hw::parse_target("h100:16")), 8);
  EXPECT_EQ(chips_of_node(hw::parse_target("v6e:4x4")), 4);
}

}  // namespace
}  // namespace megacpp::fit
