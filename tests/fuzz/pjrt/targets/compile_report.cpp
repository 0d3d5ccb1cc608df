// SPDX-License-Identifier: Apache-2.0
// What a child process that compiled reports, and a status as a plugin gives it.
#include <nlohmann/json.hpp>

#include "megacpp/machine/xla/pjrt/compile_report.h"
#include "megacpp/machine/xla/pjrt/status.h"
#include "tests/fuzz/json_tree.h"

namespace megacpp::fuzz {
namespace {

namespace pjrt = runtime::pjrt;

base::Json sound_report() {
  pjrt::CompileReport report;
  report.plugin = "fuzz.so";
  report.platform = "tpu";
  report.devices = 4;
  report.memory_limit = 1 << 30;
  report.memory.emplace();
  report.flops = 1e9;
  report.bytes_accessed = 1e6;
  report.collectives.push_back(
      {.kind = "all_gather", .axes = "data", .parts = 2, .bytes = 64, .calls = 3, .name = "x"});
  return pjrt::to_json(report);
}

void read_report(Bytes input) {
  Choices choices(input);
  if (choices.one_in(3)) {
    const auto code = static_cast<pjrt::StatusCode>(choices.below(20));
    const auto phase = static_cast<pjrt::Phase>(choices.below(8));
    pjrt::raise_failure({.code = code, .message = choices.text(200)}, phase, "fuzz.so");
  }
  base::Json json = sound_report();
  change_tree(json, choices);
  base::to_text(pjrt::to_json(pjrt::report_from_json(json)));
}

}  // namespace

Target compile_report_target() {
  return {
      .name = "compile_report", .subject = "statuses and reports of compilations", .weight = 50, .run = read_report};
}

}  // namespace megacpp::fuzz
