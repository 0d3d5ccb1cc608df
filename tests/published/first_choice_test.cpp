// SPDX-License-Identifier: Apache-2.0
// What a search answers for published configurations, on the number of chips they are published for: the published
// layout, or one that plans faster under the same model. With few tries, so that only what is always compiled counts.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "megacpp/fit/search.h"
#include "megacpp/hw/slice.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "tests/published/published_layouts.h"

namespace megacpp::published {
namespace {

constexpr int64_t kFewTries = 8;

struct Configuration {
  const char* layout;
  const char* hardware;
};

void PrintTo(const Configuration& one, std::ostream* out) { *out << one.layout; }

const Configuration kConfigurations[] = {{"llama3_8b", "h100:8"},
                                         {"fsdp_64", "h100:64"},
                                         {"mixtral_ep_8_fsdp_8", "h100:64"},
                                         {"mixtral_ep_8_tp_2", "h100:32"},
                                         {"deepseek_ep_16_fsdp_4", "v6e:8x8"}};

class FirstChoiceTest : public testing::TestWithParam<Configuration> {};

TEST_P(FirstChoiceTest, IsThePublishedLayoutOrPlansFaster) {
  const recipe::Recipe recipe = published_recipe(published_layout(GetParam().layout));
  const fit::Assumptions assumptions{.slice = hw::parse_target(GetParam().hardware),
                                     .kernels = runtime::cpu::cpu_target(1)};
  const fit::Found published = fit::compile_candidate(recipe, {}, assumptions);
  ASSERT_TRUE(published.fit.fits());
  const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.tries = kFewTries, .with_auto = 0});
  ASSERT_TRUE(search.fits());
  EXPECT_LE(search.found.front().time.seconds(), published.time.seconds()) << search.found.front().layout;
}

INSTANTIATE_TEST_SUITE_P(Published, FirstChoiceTest, testing::ValuesIn(kConfigurations),
                         [](const auto& one) { return std::string(one.param.layout); });

}  // namespace
}  // namespace megacpp::published
