// SPDX-License-Identifier: Apache-2.0
#ifdef MEGACPP_HAS_PJRT

#include "megacpp/machine/xla/xla_backend.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::runtime {
namespace {

// Whether XLA gets attention as one call, in a program over that many chips.
bool is_fused(const std::vector<std::string>& settings, int64_t chips) {
  recipe::Recipe recipe;
  recipe.backend = "xla";
  recipe::apply_overrides(recipe, settings);
  const ir::TensorType q{ir::DType::bf16, {1, 64, 2, 64}}, lse{ir::DType::f32, {1, 2, 64}};
  const ops::Types operands = {q, q, q}, results = {q, lse};
  const ir::Attrs attrs = {{"scale", 0.125}, {"causal", int64_t{1}}};
  const ops::NodeView view{operands, results, attrs};
  const schedule::Target target =
      xla_backend().target(recipe::run_request(recipe), mesh_here(recipe::run_request(recipe), chips));
  EXPECT_FALSE(target.runs("ssd", view)) << "only attention is cuDNN's";
  return static_cast<bool>(target.runs("attention", view));
}

TEST(XlaBackendTest, AttentionIsOneCallWhereCudnnIsThereAndXlaNeedNotDivideIt) {
  EXPECT_TRUE(is_fused({"xla.plugin=cuda"}, 1));
  EXPECT_TRUE(is_fused({"xla.plugin=cuda"}, 2));
  EXPECT_TRUE(is_fused({"xla.plugin=cuda", "xla.placement=xla"}, 1));
  EXPECT_FALSE(is_fused({"xla.plugin=cuda", "xla.placement=xla"}, 2));
  EXPECT_FALSE(is_fused({"xla.plugin=cuda", "xla.attention=blocked"}, 1));
  EXPECT_FALSE(is_fused({"xla.plugin=cpu"}, 1));
}

TEST(XlaBackendTest, AttentionThatWasToBeOneCallAndIsNoneIsAFallback) {
  const auto counts = [](const std::vector<std::string>& settings, std::string_view op) {
    recipe::Recipe recipe;
    recipe.backend = "xla";
    recipe::apply_overrides(recipe, settings);
    return xla_backend().target(recipe::run_request(recipe), mesh_here(recipe::run_request(recipe), 2)).wants_whole(op);
  };
  EXPECT_TRUE(counts({"xla.plugin=cuda", "xla.placement=xla"}, "attention"));
  EXPECT_FALSE(counts({"xla.plugin=cuda", "xla.placement=xla"}, "ssd")) << "XLA never has it whole";
  EXPECT_FALSE(counts({"xla.plugin=cuda", "xla.attention=blocked"}, "attention"));
  EXPECT_FALSE(counts({"xla.plugin=cpu"}, "attention")) << "there is no such call";
}

}  // namespace
}  // namespace megacpp::runtime

#endif
