// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/metric.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using base::Json;
using testing_support::whole_report;

std::map<std::string, double> values_by_name(const train::StepReport& report) {
  std::map<std::string, double> values;
  for (const MetricValue& value : values_of(report)) values[value.name] = value.value;
  return values;
}

TEST(MetricTest, EveryMemberOfALogLineIsAMetric) {
  const std::map<std::string, double> values = values_by_name(whole_report());
  const Json line = base::parse_json(train::line_of(whole_report()), base::Code::E9001, "test");
  for (const auto& [name, member] : line.items()) {
    if (name == kStepSeconds || name == "experts") continue;
    ASSERT_TRUE(member.is_number() && values.contains(name)) << name;
    EXPECT_EQ(values.at(name), member.get<double>()) << name;
  }
  for (const Json& block : line.at("experts"))
    for (const auto& [name, member] : block.items()) {
      const std::string stem = "experts." + block.at("block").get<std::string>() + "." + name;
      if (member.is_number()) {
        EXPECT_EQ(values.at(stem), member.get<double>()) << name;
      }
      if (!member.is_array()) continue;
      for (size_t i = 0; i < member.size(); ++i)
        EXPECT_EQ(values.at(stem + "." + std::to_string(i)), member.at(i).get<double>()) << name;
    }
}

TEST(MetricTest, WhatWasNotMeasuredIsLeftOut) {
  const std::map<std::string, double> values = values_by_name({.step = 3, .steps = 1});
  for (const char* name : {"loss", "peak_bytes", "logged_at", "tokens_per_second"}) EXPECT_FALSE(values.contains(name));
  EXPECT_EQ(values.at("step"), 3);
  EXPECT_EQ(values_by_name(whole_report()).at("tokens_per_second"), 4096 / 0.75);
}

TEST(MetricTest, ABlockWithoutExpertsAsADamagedLogHasItHasNoImbalance) {
  train::StepReport report = whole_report();
  report.experts[0].share.clear();
  EXPECT_FALSE(values_by_name(report).contains("experts.block03.imbalance"));
}

TEST(MetricTest, NamesAreDistinctAndOnlyStepAndTimeHaveNoTag) {
  std::set<std::string> names, tags, prometheus;
  for (const Metric& metric : all_metrics()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_TRUE(prometheus.insert(metric.prometheus_name).second) << metric.name;
    const std::string tag = metric.tag;
    EXPECT_EQ(tag.empty(), metric.name == std::string("step") || metric.name == std::string("logged_at"));
    if (tag.empty()) continue;
    EXPECT_TRUE(tags.insert(tag).second && tag.ends_with("/" + std::string(metric.name))) << tag;
  }
  for (const ExpertMetric& metric : expert_metrics())
    EXPECT_TRUE(prometheus.insert(metric.prometheus_name).second) << metric.name;
}

}  // namespace
}  // namespace megacpp::metrics
