// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/replication_gate.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::partition {
namespace {

const ir::Mesh kContextMesh({{"data", 2}, {"context", 4}, {"model.0", 2}, {"model.1", 3}});
const std::map<std::string, std::string> kKeys = {
    {"data", "layout.data_parallel"}, {"context", "layout.context_parallel"}, {"model", "layout.tensor_parallel"}};
const ir::TensorType kWhole{ir::DType::f32, {24, 8}};  // 768 bytes

ir::Sharding sharding(const char* text) { return ir::parse_sharding(text, kContextMesh); }

TEST(ReplicationGateTest, RefusesOnlyWhatGrowsByAGatherAboveTheLimit) {
  const auto refuses = [](const char* from, const char* to, int64_t limit) {
    return ReplicationGate(kContextMesh, limit, kKeys).refuses(kWhole, sharding(from), sharding(to));
  };
  EXPECT_TRUE(refuses("context,-", "-,-", 767));
  EXPECT_FALSE(refuses("context,-", "-,-", 768));
  EXPECT_TRUE(refuses("data+context,-", "data,-", 383)) << "whole on every chip of context";
  EXPECT_FALSE(refuses("data+context,-", "data,-", 384));
  EXPECT_FALSE(refuses("context,-", "-,context", 0)) << "moves to another dimension";
  EXPECT_FALSE(refuses("data,-", "context,-", 0)) << "a chip has less than before";
  EXPECT_FALSE(refuses("-,- ~ context", "-,-", 0)) << "was never split";
}

TEST(ReplicationGateTest, NamesTheLargestItsAxesTheirKeysAndWhatIsEnough) {
  ReplicationGate gate(kContextMesh, 10, kKeys);
  EXPECT_NO_THROW(gate.check());
  gate.add({.tensor = "small",
            .reader = "add @block00.A",
            .whole = kWhole,
            .from = sharding("context+data,-"),
            .to = sharding("context,-")});
  gate.add({.tensor = "keys",
            .reader = "dot @block01.A",
            .whole = kWhole,
            .from = sharding("model.0+model.1,context"),
            .to = sharding("model.0,-")});
  gate.add({.tensor = "other",
            .reader = "add @block02.A",
            .whole = kWhole,
            .from = sharding("context+data,-"),
            .to = sharding("context,-")});
  const base::Problem problem = testing_support::problem_of(base::Code::E1408, [&] { gate.check(); });
  EXPECT_EQ(problem.where, "keys, read by dot @block01.A");
  EXPECT_EQ(problem.got,
            "384 bytes on every chip along context+model.1, from 32: [model.0+model.1,context] -> [model.0,-]");
  EXPECT_EQ(problem.wanted, "at most 10 bytes that nothing asked for");
  EXPECT_EQ(
      problem.next,
      "set layout.max_replicated_bytes: 384, which every chip then holds of it, or layout.context_parallel: 1 and "
      "layout.tensor_parallel: 2 and give their chips to other degrees");
}

TEST(ReplicationGateTest, WhereOneDegreeIsEnoughItIsNamedFirst) {
  ReplicationGate gate(kContextMesh, 10, kKeys);
  gate.add({.tensor = "keys",
            .reader = "dot @block01.A",
            .whole = kWhole,
            .from = sharding("model.0+model.1,-"),
            .to = sharding("model.0,-")});
  EXPECT_EQ(testing_support::problem_of(base::Code::E1408, [&] { gate.check(); }).next,
            "set layout.tensor_parallel: 2, or layout.max_replicated_bytes: 384");
}

TEST(ReplicationGateTest, AllStepsThatRemainSplitMultiplyToTheDegreeThatIsEnough) {
  const ir::Mesh mesh({{"data", 2}, {"model.0", 2}, {"model.1", 3}, {"model.2", 5}});
  ReplicationGate gate(mesh, 10, kKeys);
  gate.add({.tensor = "keys",
            .reader = "dot @block01.A",
            .whole = {ir::DType::f32, {30, 8}},
            .from = ir::parse_sharding("model.0+model.1+model.2,-", mesh),
            .to = ir::parse_sharding("model.0+model.2,-", mesh)});
  EXPECT_EQ(testing_support::problem_of(base::Code::E1408, [&] { gate.check(); }).next,
            "set layout.tensor_parallel: 10, or layout.max_replicated_bytes: 96");
}

}  // namespace
}  // namespace megacpp::partition
