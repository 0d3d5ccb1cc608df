// SPDX-License-Identifier: Apache-2.0
// The receipt of a run that nothing is wrong with, for tests to spoil.
#pragma once

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/receipt/steps.h"

namespace megacpp::testing_support {

/// A step of 10 ms, a little slower every third time.
inline std::vector<train::StepReport> steady_reports(int64_t steps) {
  std::vector<train::StepReport> reports;
  for (int64_t step = 0; step < steps; ++step) {
    train::StepReport report{.step = step, .loss = 5.5 - 0.01 * static_cast<double>(step)};
    report.steps = 1;
    report.seconds = step == 0 ? 0.5 : step % 3 == 0 ? 0.0104 : 0.01;
    report.tokens = 2048;
    report.step_seconds = {report.seconds};
    report.experts = {{.block = "block01", .share = {0.25, 0.75}, .dropped = {0, 1}}};
    reports.push_back(report);
  }
  return reports;
}

inline receipt::Receipt clean_receipt(int64_t steps = 150) {
  receipt::Receipt receipt;
  receipt.run = "tiny-20261116T214512Z";
  receipt.ending.kind = receipt::EndingKind::finished;
  receipt.ending.started_at = "2026-11-16T21:45:12Z";
  receipt.ending.ended_at = "2026-11-16T21:46:12Z";
  receipt.ending.requested_steps = steps;
  receipt.header.hardware = {.name = "host:2", .topology = "host:2", .chips = 2, .mesh = "data=2"};
  receipt.header.model = {.name = "tiny", .family = "hybrid", .pattern = "AEMR", .depth = 4, .hidden = 128};
  receipt.header.batch = {.batch = 8, .sequence = 256, .micro_steps = 1, .tokens = 2048, .data = "docs"};
  receipt.header.program.backend = "cpu";
  receipt.header.program.path = "cpu";
  receipt.header.program.layout = "policy=spmd data_parallel=2 zero=1";
  receipt.header.versions.code = "0.1.0+1f2e3d4c5b6a7988";
  receipt.recipe = "name: tiny\n";
  receipt.repeats = "the same bits on such a processor with as many threads of a chip";
  receipt.times.compile = "own passes alone";
  receipt.mfu = {.model_flops = 2e8, .peak_flops = 1e11, .peak = "f32 products of this machine"};
  receipt.counters.devices = receipt::DeviceCounters{.compiles = {{.what = "kernels prepared", .count = 1}}};
  receipt.memory.planned = {{.chips = 2,
                             .place = "chip 0: data 0",
                             .planned_bytes = 4096,
                             .needed_bytes = 4096,
                             .state_bytes = 1024,
                             .limit_bytes = 8192,
                             .items = {{.role = "weight", .family = "A", .bytes = 512}}}};
  receipt.memory.along_step = {{.family = "", .bytes = {1024, 1024}}, {.family = "A", .bytes = {512, 3072}}};
  receipt.memory.measured = {{.place = "chip 0: data 0", .planned_bytes = 4096, .measured_bytes = 4032}};
  receipt.collectives = {{{.axes = "data", .kind = "all_reduce", .calls = 3, .bytes = 2048}}};
  receipt.ladder.tried = {{.rung = 1, .name = "batch", .outcome = "skipped", .reason = "needs no less"}};
  receipt::add_steps(receipt, steady_reports(steps));
  return receipt;
}

}  // namespace megacpp::testing_support
