// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/core/ir/text.h"

namespace megacpp::train {
namespace {

using base::Json;

const ir::Graph& program() {
  static const ir::Graph graph = ir::parse(R"(graph "step \"1\"" {
  %0 = input() {dtype="f32", name="w", shape=[2]} : f32[2] @block00.A #weight
  %1 = collective_start(%0) {axes="data", cause="use of \"w\"", dims=[0], op="all_gather", parts=2} : f32[4] @block00.A
  %2 = exp(%0) : f32[2] @embed
  %3 = collective_done(%1) {axes="data", op="all_gather", parts=2} : f32[4] @block00.A
  output "y" = %3
}
)");
  return graph;
}

const std::vector<runtime::TraceEvent> kEvents = {
    {&program(), 1, 0.001, 0.002}, {&program(), 2, 0.002, 0.005}, {&program(), 3, 0.005, 0.006}};

Json trace_of(const std::vector<ChipTrace>& chips) {
  // As two processes write it: each its own chips.
  std::vector<ChipTrace> first, second;
  for (const ChipTrace& chip : chips) (chip.chip == 0 ? first : second).push_back(chip);
  const std::vector<std::string> events = {chrome_events(first), chrome_events(second)};
  return base::parse_json(to_chrome_trace(events), base::Code::E9001, "trace")["traceEvents"];
}

TEST(TraceTest, EveryNodeIsAnEventOfItsChip) {
  const Json events = trace_of({{0, "chip 0", kEvents}, {1, "chip 1", kEvents}});
  ASSERT_EQ(events.size(), 2 * (1 + 3 + 2));
  EXPECT_EQ(events[0]["args"]["name"], "chip 0");
  EXPECT_EQ(events[6]["args"]["name"], "chip 1");
  std::vector<std::string> names;
  for (const Json& event : events)
    if (event["ph"] == "X" && event["pid"] == 1) names.push_back(event["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"start all_gather", "exp", "done all_gather"}));
  EXPECT_EQ(events[3]["args"]["scope"], "embed");
  EXPECT_EQ(events[3]["args"]["program"], program().name());
  EXPECT_NEAR(events[3]["ts"].get<double>(), 2000, 1e-6);
  EXPECT_NEAR(events[3]["dur"].get<double>(), 3000, 1e-6);
}

TEST(TraceTest, ACollectiveIsASpanFromItsStartUntilItIsDone) {
  std::map<int64_t, std::vector<Json>> spans;  // by id
  for (const Json& event : trace_of({{0, "chip 0", kEvents}, {1, "chip 1", kEvents}}))
    if (event.contains("id")) spans[event["id"]].push_back(event);
  ASSERT_EQ(spans.size(), 2U) << "ids are different on different chips";
  for (const auto& [_, span] : spans) {
    ASSERT_EQ(span.size(), 2U);
    EXPECT_EQ(span[0]["ph"], "b");
    EXPECT_EQ(span[1]["ph"], "e");
    EXPECT_EQ(span[0]["name"], "all_gather");
    EXPECT_NEAR(span[0]["ts"].get<double>(), 1000, 1e-6);
    EXPECT_NEAR(span[1]["ts"].get<double>(), 6000, 1e-6);
    EXPECT_EQ(span[0]["args"]["bytes"], 16);
    EXPECT_EQ(span[0]["args"]["axes"], "data");
    EXPECT_EQ(span[0]["args"]["cause"], "use of \"w\"");
  }
}

TEST(TraceTest, TimesOfAChipNeverGoBack) {
  std::vector<runtime::TraceEvent> twice = kEvents;
  for (runtime::TraceEvent event : kEvents)
    twice.push_back({event.program, event.node, event.start + 1, event.end + 1});
  double last = 0;
  for (const Json& event : trace_of({{0, "chip 0", twice}})) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"].get<double>();
  }
}

TEST(TraceTest, WhatWasNotKeptToItsEndHasNoSpan) {
  EXPECT_EQ(trace_of({{0, "chip 0", std::span(kEvents).first(2)}}).size(), 3U);
  EXPECT_EQ(trace_of({}).size(), 0U);
}

}  // namespace
}  // namespace megacpp::train
