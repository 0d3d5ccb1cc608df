// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/reservation.h"

#include <gtest/gtest.h>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {
namespace {

// 100 bytes and 10 of code are expected, of which 80 are alive at once.
Reservation of_a_compiler() {
  return {.least = 55, .expected = 110, .most = 160, .least_code = 5, .code = 10, .state = 40, .alive = 80};
}

TEST(ReservationTest, WithoutARuleThePlanIsNeededToTheByte) {
  compile::Compiled compiled;
  compiled.stages.resize(2);
  compiled.stages[1].memory.total_bytes = 70;
  compiled.stages[1].memory.state_bytes = 30;
  const plan::PlannedRecipe planned;
  const schedule::Target target;
  const Reservation reservation = reservation_of({}, {planned, compiled, target, 1}, {}).value();
  EXPECT_EQ(reservation.least, 70);
  EXPECT_EQ(reservation.expected, 70);
  EXPECT_EQ(reservation.most, 70);
  EXPECT_EQ(reservation.state, 30);
  EXPECT_FALSE(reservation.is_range());
}

TEST(ReservationTest, WhatWasMeasuredToBeAliveChangesAllButTheCode) {
  const Reservation more = corrected(of_a_compiler(), 120);
  EXPECT_EQ(more.expected, 150 + 10);
  EXPECT_EQ(more.least, 75 + 5);
  EXPECT_EQ(more.most, 225 + 10);
  EXPECT_EQ(more.alive, 120);
  const Reservation less = corrected(of_a_compiler(), 40);
  EXPECT_EQ(less.expected, 50 + 10);
  EXPECT_EQ(less.least, 40 + 5) << "state is exact";
}

TEST(ReservationTest, LessChangesNothingWhereACompilerHasTheLastWord) {
  Reservation asked = of_a_compiler();
  asked.is_asked_first = true;
  EXPECT_EQ(corrected(asked, 40).expected, 110);
  EXPECT_EQ(corrected(asked, 120).expected, 160);
}

}  // namespace
}  // namespace megacpp::fit
