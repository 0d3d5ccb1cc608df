// SPDX-License-Identifier: Apache-2.0
// A third memory is one file (disk.cpp) and one line (memory_tier_list.inc): programs, plans, predictions and reports
// take it from there. A backend that has it says so in its target and gives addresses there.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/cpu/cpu_device.h"
#include "megacpp/machine/runtime/native_executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

ir::Tier disk() { return *ir::parse_tier("disk"); }

/// A virtual chip with a disk: copies are done where they start.
class DiskDevice : public runtime::cpu::CpuDevice {
 public:
  DiskDevice(const runtime::Link& link, const Options& options, int64_t disk_bytes)
      : CpuDevice(link, options), disk_(static_cast<size_t>(disk_bytes)) {}

  std::byte* at_tier(ir::Tier tier, int64_t offset) const override {
    EXPECT_EQ(tier, disk());
    EXPECT_EQ(offset % ir::record(tier).alignment, 0) << "of a page";
    return const_cast<std::byte*>(disk_.data()) + offset;
  }
  runtime::DeviceCall prepare(const runtime::BoundNode& bound) override {
    if (bound.node.op == ops::kCopyDoneOp) return {.run = [] {}};
    if (bound.node.op != ops::kCopyStartOp) return CpuDevice::prepare(bound);
    const auto bytes = static_cast<size_t>(bound.graph.type(bound.node.results[0]).bytes());
    return {.run = [to = bound.results[0], from = bound.operands[0], bytes] { std::memcpy(to, from, bytes); }};
  }

 private:
  std::vector<std::byte> disk_;
};

schedule::Target target_with_a_disk() {
  schedule::Target target = runtime::cpu::cpu_target(1);
  target.tiers = {disk()};
  return target;
}

recipe::Recipe recipe_with(const std::string& offload) {
  return recipe::parse(
      "model: {pattern: AE, depth: 4, hidden: 64, vocab: 256, attention: {heads: 4, kv_heads: 2, head_dim: 16},"
      " feed_forward: {intermediate: 128}}\n"
      "train: {batch: 16, sequence: 64, steps: 3, micro_steps: 2, log_every: 1}\noptimizer: {warmup_steps: 1}\n"
      "layout: {offload: " +
          offload + "}\n",
      "offloaded.yaml");
}

struct Trained {
  std::vector<double> losses;
  runtime::ChipMemory memory;
};

Trained trained(const std::string& offload) {
  const recipe::Recipe recipe = recipe_with(offload);
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), target_with_a_disk());
  const memory::MemoryPlan& plan = compiled.programs_of(0).memory;
  const auto away = plan.away.find(disk());
  const int64_t bytes = away == plan.away.end() ? 0 : away->second.bytes;
  runtime::NativeBackend backend;
  backend.path = "disk";
  backend.world = collectives::inproc_transport().make({.chips = 1, .wait_limit = std::chrono::seconds(60)});
  backend.device = [&, world = backend.world](int64_t chip) -> std::unique_ptr<runtime::ChipDevice> {
    const runtime::cpu::CpuDevice::Options options{.arena_bytes = plan.total_bytes,
                                                   .transport = collectives::inproc_transport()};
    return std::make_unique<DiskDevice>(runtime::Link{compiled.mesh, chip, world->communicator(chip)}, options, bytes);
  };
  backend.limits = {{0, 0}};
  runtime::NativeExecutable executable(compiled, runtime::LoadOptions{}, std::move(backend));
  train::RunState(compiled, executable).initialise_weights(7);
  data::TextCorpus corpus;
  corpus.document_begins = {0};
  for (size_t i = 0; i < 8192; ++i) corpus.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
  const data::Batches batches(corpus, train::batch_options(recipe));
  Trained result;
  for (const train::StepReport& report : train::train({recipe, compiled, batches, executable}, {}))
    result.losses.push_back(report.loss.value());
  result.memory = executable.memory(0);
  return result;
}

TEST(MemoryTierTest, ProgramsNameIt) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="m", memory="disk", shape=[4]} : f32[4] #optimizer
  %1 = copy_start(%0) {to="device"} : f32[4]
  %2 = copy_done(%1) : f32[4]
  output "y" = %2
}
)";
  const ir::Graph graph = ir::parse(text);
  ops::verify(graph, ops::Form::built);
  EXPECT_EQ(ops::tier_of(graph, graph.node(graph.inputs()[0]).results[0]), disk());
  EXPECT_EQ(problem_of(base::Code::E1301,
                       [] {
                         ops::op_def("copy_start").infer({{ir::DType::f32, {4}}}, {{"to", std::string("tape")}});
                       })
                .wanted,
            "device, host or disk");
}

TEST(MemoryTierTest, WhatIsOffloadedIsPlannedAndMeasuredThere) {
  const Trained here = trained("none");
  EXPECT_TRUE(here.memory.away.empty());
  for (const char* offload : {"optimizer", "activations", "all"}) {
    const Trained away = trained(offload);
    EXPECT_EQ(away.losses, here.losses) << offload << ": the same bits";
    const runtime::TierUse use = away.memory.in(disk());
    EXPECT_GT(use.planned_bytes, 0) << offload;
    EXPECT_EQ(use.planned_bytes % 4096, 0);
    EXPECT_EQ(use.measured_bytes, use.planned_bytes) << offload;
    EXPECT_EQ(away.memory.measured_peak_bytes, away.memory.planned_peak_bytes) << offload;
    EXPECT_LT(*away.memory.planned_peak_bytes, *here.memory.planned_peak_bytes) << offload;
  }
}

TEST(MemoryTierTest, ReportsNameItAndHostsDoNotCountIt) {
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe_with("optimizer")), target_with_a_disk());
  const memory::MemoryPlan& plan = compiled.programs_of(0).memory;
  EXPECT_NE(memory::to_text(plan).find("in files of the host"), std::string::npos) << memory::to_text(plan);
  EXPECT_EQ(plan.of_host().bytes, 0);
}

TEST(MemoryTierTest, CopiesTakeTheRateOfItsLink) {
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe_with("optimizer")), target_with_a_disk());
  hw::Slice slice = hw::parse_target("h100:1");
  EXPECT_GT(fit::predict_step(compiled, slice, ir::DType::f32).unpriced_bytes, 0) << "its file has no such link";
  slice.chip.links.push_back({.name = "nvme", .scope = hw::LinkScope::node, .bytes_per_second = 5e9});
  const fit::StepTime slow = fit::predict_step(compiled, slice, ir::DType::f32);
  EXPECT_EQ(slow.unpriced_bytes, 0);
  slice.chip.links.back().bytes_per_second = 5e10;
  EXPECT_LT(fit::predict_step(compiled, slice, ir::DType::f32).exposed_copies, slow.exposed_copies);
}

}  // namespace
}  // namespace megacpp::testing_support
