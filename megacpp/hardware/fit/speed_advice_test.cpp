// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/speed_advice.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

TEST(SpeedAdviceTest, NamesTheKeysOfTheRegime) {
  const recipe::Train plain;
  recipe::Train recomputing;
  recomputing.recompute['E'] = recipe::RecomputeLevel::full;
  plan::Plan zero3;
  zero3.layout = plan::ResolvedLayout({.pattern = "E", .depth = 1}, {.zero = 3});
  const StepTime waits_for_model{
      .exposed = 2, .links = {{.axes = "data", .exposed = 0.5}, {.axes = "model.0+model.1", .exposed = 1.5}}};
  const StepTime waits_for_data{.exposed = 2, .links = {{.axes = "data", .exposed = 2}}};
  struct Row {
    std::string said, text;
  };
  const std::vector<Row> rows = {
      {"only more or faster chips", speed_advice({.compute = 1}, {}, plain)},
      {"recompute less", speed_advice({.compute = 1}, {}, recomputing)},
      {"train.batch", speed_advice({.memory = 1}, {}, plain)},
      {"train.micro_steps", speed_advice({.bubble = 1}, {}, plain)},
      {"over model.0+model.1: lower layout.tensor_parallel", speed_advice(waits_for_model, {}, plain)},
      {"copies from and to the host: offload less", speed_advice({.exposed = 2, .exposed_copies = 2}, {}, plain)},
      {"copies from and to the host",
       speed_advice({.exposed = 2, .exposed_copies = 1.5, .links = {{.axes = "data", .exposed = 0.5}}}, {}, plain)},
      {"layout.zero: 2", speed_advice(waits_for_data, zero3, plain)},
      {"lower layout.data_parallel", speed_advice(waits_for_data, {}, plain)},
  };
  for (const Row& row : rows) EXPECT_NE(row.text.find(row.said), std::string::npos) << row.text;
}

}  // namespace
}  // namespace megacpp::fit
