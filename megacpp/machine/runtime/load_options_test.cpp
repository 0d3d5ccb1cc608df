// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/load_options.h"

#include <gtest/gtest.h>

#include "megacpp/machine/collectives/placement.h"

namespace megacpp::runtime {
namespace {

// An algorithm that one process searches for longer than a step may wait ends nothing; one that hangs does in the end.
TEST(LoadOptionsTest, LoadingMayTakeLongWhileProcessesAnswer) {
  const ir::Mesh mesh({{"data", 2}, {"model", 2}});
  const std::chrono::seconds limit(7);
  const collectives::WorldOptions world = world_of_run(mesh, {.wait_limit = limit});
  EXPECT_EQ(world.chips, 4);
  EXPECT_EQ(world.order, collectives::dealing_order(mesh));
  EXPECT_EQ(world.wait_limit, limit) << "of a call";
  EXPECT_EQ(world.agreement_limit, std::chrono::hours(1));
  EXPECT_EQ(world_of_run(mesh, {.wait_limit = std::chrono::minutes(10)}).agreement_limit, std::chrono::minutes(100));
  EXPECT_EQ(world.answer_limit, limit) << "who is stopped does not answer";
  EXPECT_EQ(world.join_limit, limit) << "who has not come cannot answer";
}

}  // namespace
}  // namespace megacpp::runtime
