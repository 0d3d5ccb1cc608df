// SPDX-License-Identifier: Apache-2.0
// None of the published layouts may be refused, neither by a gate nor because a tensor would have to be gathered that
// nobody asked for.
#include <gtest/gtest.h>

#include <string>

#include "megacpp/compile/compile.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "tests/published/published_layouts.h"

namespace megacpp::published {
namespace {

class PublishedLayoutsTest : public testing::TestWithParam<PublishedLayout> {};

TEST_P(PublishedLayoutsTest, IsNotRefused) {
  EXPECT_NO_THROW(compile::compile_training(published_recipe(GetParam()), runtime::cpu::cpu_target(1)));
}

INSTANTIATE_TEST_SUITE_P(Published, PublishedLayoutsTest, testing::ValuesIn(published_layouts()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace megacpp::published
