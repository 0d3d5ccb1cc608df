// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/pjrt/hlo_check.h"

#include "megacpp/machine/xla/pjrt/hlo_program.h"
#include "megacpp/machine/xla/pjrt/hlo_runs.h"
#include "megacpp/machine/xla/pjrt/xla_collectives.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {

namespace pjrt = runtime::pjrt;

void read_hlo(const std::string& code, const std::string& format) {
  const pjrt::HloProgram program = pjrt::read_hlo_program({.format = format, .code = code});
  for (const pjrt::HloRuns& runs : pjrt::runs_of(program)) require(runs.count >= 0, "runs are counted");
  require(pjrt::loop_factor(program).factor >= 0, "a factor is a number");
  static const ir::Mesh kMesh({{"data", 2}, {"expert", 1}, {"model", 4}});
  for (const pjrt::XlaCollective& each : pjrt::collectives_of(program, kMesh))
    require(each.bytes >= 0 && each.parts > 1 && each.parts <= kMesh.chips(), "a collective moves bytes between chips");
}

}  // namespace megacpp::fuzz
