// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/oom_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/hardware/catalog/catalog.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

OomReport whole_report() {
  return {.code = "E2004",
          .oom_class = "runtime allocation",
          .phase = "step",
          .step = 3,
          .chip = "chip 1: data 1 on host a",
          .wanted_bytes = 1000,
          .limit_bytes = 900,
          .is_injected = true,
          .subject = {.model = "tiny",
                      .pattern = "AEME",
                      .depth = 4,
                      .hidden = 128,
                      .batch = 8,
                      .sequence = 64,
                      .micro_steps = 2,
                      .precision = "bf16",
                      .layout = "policy=spmd zero=1",
                      .mesh = "data=2",
                      .hardware = "host:2",
                      .backend = "cpu"},
          .roles = {{.what = "weight", .bytes = 600}},
          .largest = {{.what = "dot f32[4]", .scope = "block00.A", .bytes = 16}},
          .reductions = {{.rung = 1,
                          .name = "batch",
                          .settings = "train.batch=4",
                          .outcome = "not enough",
                          .reason = "\"quoted\"\nline",
                          .needed_bytes = 950,
                          .limit_bytes = 900},
                         {.rung = 2, .name = "sequence", .outcome = "skipped", .reason = "leaves too much"}},
          .ending = "nothing fits",
          .message = "RESOURCE_EXHAUSTED"};
}

TEST(OomReportTest, TheCatalogGivesTheWholeReportBack) {
  const testing_support::TemporaryFolder folder;
  {
    Catalog catalog = Catalog::open(folder / "c.sqlite");
    catalog.record({.signature = {.model = "tiny"}, .fits = false, .report = whole_report()});
    catalog.record({.signature = {.model = "tiny"}});
  }
  const Catalog catalog = Catalog::open(folder / "c.sqlite", {.access = Access::read});
  const std::vector<Outcome> outcomes = catalog.entries().at(0).outcomes;
  ASSERT_TRUE(outcomes.at(0).report);
  EXPECT_EQ(base::to_text(to_json(*outcomes[0].report)), base::to_text(to_json(whole_report())));
  EXPECT_FALSE(outcomes.at(1).report);
}

TEST(OomReportTest, OtherVersionsReportsAreReadAsFarAsTheyAreKnown) {
  const base::Json json = base::parse_json(
      R"({"code": "E2001", "step": "three", "later": [1], "subject": {"pattern": "AE"}, "largest": [{"bytes": 7}, 8]})",
      base::Code::E1701, "test");
  const OomReport report = oom_report_of(json);
  EXPECT_EQ(report.code, "E2001");
  EXPECT_EQ(report.step, -1);
  EXPECT_EQ(report.subject.pattern, "AE");
  ASSERT_EQ(report.largest.size(), 2U);
  EXPECT_EQ(report.largest[0].bytes, 7);
}

}  // namespace
}  // namespace megacpp::catalog
