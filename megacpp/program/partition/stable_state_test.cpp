// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/stable_state.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "tests/support/errors.h"

namespace megacpp::partition {
namespace {

const ir::Mesh kStateMesh({{"data", 2}});

// Replaces the state "w" of this sharding.
ir::Graph program(const std::string& name, const std::string& sharding) {
  return ir::parse("graph \"" + name + "\" {\n  %0 = input() {dtype=\"f32\", name=\"w\", shape=[4,6], sharding=\"" +
                   sharding + R"ir("} : f32[4,6] #weight
  %1 = add(%0, %0) : f32[4,6] @update
  output "w.next" = %1 donates "w"
}
)ir");
}

TEST(StableStateTest, StateThatStaysWhereItIsPasses) {
  const Partitioned first = partition(program("micro", "data,-"), kStateMesh);
  for (const char* sharding : {"data,-", "auto"}) {
    const Partitioned update = partition(program("update", sharding), kStateMesh, first.inputs);
    EXPECT_EQ(update.inputs.at("w").sharding, first.inputs.at("w").sharding);
    EXPECT_NO_THROW(check_stable_state(update, first.inputs, kStateMesh));
  }
}

TEST(StableStateTest, AProgramThatPlacesStateDifferentlyIsRefused) {
  const Partitioned first = partition(program("micro", "data,-"), kStateMesh);
  const Partitioned update = partition(program("update", "-,data"), kStateMesh, first.inputs);
  const base::Problem problem =
      testing_support::problem_of(base::Code::E9002, [&] { check_stable_state(update, first.inputs, kStateMesh); });
  EXPECT_EQ(problem.where, "w");
  EXPECT_EQ(problem.got, "f32[4,6] as -,data read by program update");
  EXPECT_EQ(problem.wanted, "f32[4,6] as data,- in earlier programs: state stays where it is from step to step");
  EXPECT_NE(problem.next.find("one sharding in all programs"), std::string::npos);
}

TEST(StableStateTest, AnOutputThatMovesItsStateIsRefused) {
  const Partitioned sound = partition(program("update", "data,-"), kStateMesh);
  EXPECT_NO_THROW(check_stable_state(sound, {}, kStateMesh));
  Partitioned moved = sound;
  moved.outputs.at("w.next").sharding = ir::parse_sharding("-,data", kStateMesh);
  const base::Problem problem =
      testing_support::problem_of(base::Code::E9002, [&] { check_stable_state(moved, {}, kStateMesh); });
  EXPECT_EQ(problem.got, "f32[4,6] as -,data written by output 'w.next' of program update");
  Partitioned narrowed = sound;
  narrowed.outputs.at("w.next").whole.dtype = ir::DType::bf16;
  testing_support::problem_of(base::Code::E9002, [&] { check_stable_state(narrowed, {}, kStateMesh); });
}

}  // namespace
}  // namespace megacpp::partition
