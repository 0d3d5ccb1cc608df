// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/shared_facts.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::launch {
namespace {

TEST(SharedFactsTest, RatesArriveToTheBit) {
  const hw::HostRates rates{.matrix_flops = 1e11 / 3,
                            .scan_flops = 2e10 / 3,
                            .bytes_per_second = 3e10,
                            .cores = 6,
                            .memory = (int64_t{1} << 40) + 1,
                            .processor = "a \"processor\"",
                            .kernels = "neoversen1",
                            .date = "2026-11-16"};
  const hw::HostRates told = rates_of(rates_text(rates));
  EXPECT_EQ(told.matrix_flops, rates.matrix_flops);
  EXPECT_EQ(told.scan_flops, rates.scan_flops);
  EXPECT_EQ(told.bytes_per_second, rates.bytes_per_second);
  EXPECT_EQ(told.cores, rates.cores);
  EXPECT_EQ(told.memory, rates.memory);
  EXPECT_EQ(told.processor, rates.processor);
  EXPECT_EQ(told.kernels, rates.kernels);
  EXPECT_EQ(told.date, rates.date);
}

TEST(SharedFactsTest, SamplesArriveWhole) {
  const std::vector<catalog::Sample> samples = {
      {.signature = {.build = {.code_version = "0.1.0+a", .platform = "plugin cpu", .threads = 2, .processor = "EPYC"},
                     .hardware = "host:2",
                     .model = "tiny",
                     .model_hash = "77",
                     .layout = "zero=1",
                     .features = "z_loss",
                     .shape = "batch=8"},
       .at = "2026-11-16T00:00:00Z",
       .lane = "cpu host",
       .quantity = catalog::kPeakBytes,
       .parts = {{"weights", 1.0 / 3}, {"activations", 2e9}},
       .measured = 1e9 + 0.25}};
  const std::vector<catalog::Sample> told = fact_of<std::vector<catalog::Sample>>(fact_text(samples));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].signature, samples[0].signature);
  EXPECT_EQ(told[0].at, samples[0].at);
  EXPECT_EQ(told[0].lane, samples[0].lane);
  EXPECT_EQ(told[0].quantity, samples[0].quantity);
  ASSERT_EQ(told[0].parts.size(), 2U);
  EXPECT_EQ(told[0].parts[0].first, "weights");
  EXPECT_EQ(told[0].parts[0].second, 1.0 / 3);
  EXPECT_EQ(told[0].measured, samples[0].measured);
  EXPECT_TRUE(fact_of<std::vector<catalog::Sample>>("[]").empty());
}

TEST(SharedFactsTest, AStartArrivesWhole) {
  const RememberedStart start{.start = {.at = "2026-11-16",
                                        .rung = 2,
                                        .settings = {{"train.batch", "4"}, {"train.micro_steps", "2"}},
                                        .reasons = {"rung 1 batch fits"}},
                              .ran = "it ran at rung 2"};
  const RememberedStart told = fact_of<RememberedStart>(fact_text(start));
  EXPECT_EQ(told.start.at, start.start.at);
  EXPECT_EQ(told.start.rung, 2);
  EXPECT_EQ(told.start.settings, start.start.settings);
  EXPECT_EQ(told.start.reasons, start.start.reasons);
  EXPECT_EQ(told.ran, start.ran);
}

TEST(SharedFactsTest, WhatAProcessSaysOfItsMachineArrives) {
  const ProcessHost host = fact_of<ProcessHost>(fact_text(ProcessHost{"boot 7", "node 1", 3}));
  EXPECT_EQ(host.machine + " " + host.name, "boot 7 node 1");
  EXPECT_EQ(host.free_bytes, 3);
  const CoreUser user = fact_of<CoreUser>(fact_text(CoreUser{"boot 7", {0, 12}}));
  EXPECT_EQ(user.machine, "boot 7");
  EXPECT_EQ(user.cores, (std::vector<int64_t>{0, 12}));
}

TEST(SharedFactsTest, MeasuresOfProcessesMeet) {
  RunMeasures first;
  first.chips = {{.chip = 0, .memory = {.limit_bytes = 100, .planned_peak_bytes = 40, .measured_peak_bytes = 40}}};
  first.counters.compiles["first"] = 1;
  first.counters.compile_seconds = 5;
  first.counters.cache_hits = 1;
  first.counters.executions = 40;
  first.counters.host_syncs = 3;
  first.counters.host_to_device = {.count = 2, .bytes = 64};
  first.parts = runtime::StepParts{.arithmetic = 1.0 / 3, .links = 0.25};
  RunMeasures second;
  second.chips = {
      {.chip = 1, .memory = {.limit_bytes = 50, .measured_peak_bytes = 45, .away = {{ir::Tier::host, 7, 6}}}}};
  second.counters.compiles["first"] = 1;
  second.counters.compile_seconds = 2;
  second.counters.cache_hits = 2;
  second.counters.executions = 39;
  second.counters.host_syncs = 4;
  second.counters.device_to_host = {.count = 1, .bytes = 16};
  second.parts = runtime::StepParts{.arithmetic = 0.1};
  RunMeasures all;
  for (const RunMeasures& own : {first, second}) add_measures(all, fact_of<RunMeasures>(fact_text(own)));
  ASSERT_EQ(all.chips.size(), 2U);
  EXPECT_EQ(all.chips[0].chip, 1) << "fewer bytes are free there";
  EXPECT_EQ(all.chips[0].memory, second.chips[0].memory);
  EXPECT_EQ(all.chips[1].memory, first.chips[0].memory);
  EXPECT_EQ(all.counters.compiles.at("first"), 2);
  EXPECT_EQ(all.counters.host_syncs, 7);
  EXPECT_EQ(all.counters.compile_seconds, 5) << "they compile at the same time";
  EXPECT_EQ(all.counters.cache_hits, 3);
  EXPECT_EQ(all.counters.executions, 40) << "of the same programs";
  EXPECT_EQ(all.counters.host_to_device.bytes, 64);
  EXPECT_EQ(all.counters.device_to_host.count, 1);
  ASSERT_TRUE(all.parts.has_value());
  EXPECT_EQ(all.parts->arithmetic, 1.0 / 3) << "of the slowest chip";
}

TEST(SharedFactsTest, WhatIsNotAsWrittenIsADefect) {
  for (const char* text : {"{}", "[]", R"({"start":{},"ran":""})", R"({"start":3,"ran":"it ran"})", "{"})
    EXPECT_EQ(testing_support::error_of([&] { fact_of<RememberedStart>(text); }).code(), base::Code::E9001) << text;
}

}  // namespace
}  // namespace megacpp::launch
