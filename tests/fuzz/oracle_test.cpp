// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/oracle.h"

#include <gtest/gtest.h>

namespace megacpp::fuzz {
namespace {

std::string finding_of(void (*run)(Bytes)) {
  const Target target{.name = "test", .subject = "", .weight = 1, .run = run};
  return judge(target, {}).finding;
}

TEST(OracleTest, AnErrorThatKeepsTheContractIsARefusal) {
  const Target target{.name = "test", .subject = "", .weight = 1, .run = [](Bytes) {
                        base::raise(base::Code::E1003, {.where = "x:1", .got = "0", .wanted = "1", .next = "write 1"});
                      }};
  const Judgement judgement = judge(target, {});
  EXPECT_EQ(judgement.finding, "");
  EXPECT_FALSE(judgement.is_accepted);
}

TEST(OracleTest, AllElseIsAFinding) {
  EXPECT_EQ(finding_of([](Bytes) {}), "");
  EXPECT_NE(finding_of([](Bytes) { throw std::out_of_range("vector"); }).find("vector"), std::string::npos);
  EXPECT_NE(finding_of([](Bytes) { MEGACPP_CHECK(false) << "a bug"; }).find("defect"), std::string::npos);
  EXPECT_EQ(finding_of([](Bytes) { require(false, "it holds"); }), "it holds");
  EXPECT_NE(
      finding_of([](Bytes) { base::raise(base::Code::E1003, {.got = "0", .wanted = "1", .next = "n"}); }).find("where"),
      std::string::npos);
  EXPECT_NE(
      finding_of([](Bytes) { base::raise(base::Code::E1003, {.where = "x", .wanted = "1", .next = "n"}); }).find("got"),
      std::string::npos);
  EXPECT_NE(
      finding_of([](Bytes) { base::raise(base::Code::E1003, {.where = "x", .got = "0", .next = "n"}); }).find("wanted"),
      std::string::npos);
}

}  // namespace
}  // namespace megacpp::fuzz
