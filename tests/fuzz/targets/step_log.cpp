// SPDX-License-Identifier: Apache-2.0
// The lines of a run's log, which a killed process or a full disk may leave in any state.
#include "megacpp/run/train/step_log.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_log_line(Bytes input) {
  const std::optional<train::StepReport> report = train::report_of(as_text(input));
  if (!report) return;  // no error: such lines are left out
  const std::string line = train::line_of(*report);
  require(line.find('\n') + 1 == line.size(), "a report is one line");
  const std::optional<train::StepReport> again = train::report_of(line);
  require(again && train::line_of(*again) == line, "a line prints and parses");
}

}  // namespace

Target step_log_target() {
  return {.name = "step_log", .subject = "lines of a run's log", .weight = 100, .run = read_log_line};
}

}  // namespace megacpp::fuzz
