// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/drill.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "megacpp/memory/chip_fit.h"

namespace megacpp::runtime {
namespace {

std::string stage_of(const Drill& drill) {
  switch (drill.cls) {
    case memory::OomClass::compile:
      return "compiling";
    case memory::OomClass::load:
      return "loading";
    default:
      return "step " + std::to_string(drill.step);
  }
}

}  // namespace

bool is_drilled(const Drills& drills, const Drill& moment) {
  return std::find(drills.begin(), drills.end(), moment) != drills.end();
}

memory::OutOfMemory drill_error(const Drill& drill, const compile::Compiled& compiled, int64_t limit_bytes) {
  const memory::MemoryPlan& plan = compiled.programs_of(drill.chip).memory;
  // In a step it is one buffer that fails, before that all of them.
  const bool is_in_step = drill.cls == memory::OomClass::runtime;
  memory::OomFacts facts{.cls = drill.cls,
                         .stage = stage_of(drill),
                         .chip = drill.chip,
                         .place = memory::place_of(drill.chip, compiled.mesh, host_name()),
                         .step = drill.step,
                         .roles = memory::bytes_by_role(plan),
                         .largest = memory::pieces_of(plan),
                         .is_drill = true};
  if (limit_bytes > 0) facts.limit = limit_bytes;
  std::string what = "an allocation";  // XLA's memory is not in our plan
  if (is_in_step && !plan.largest.empty()) {
    facts.wanted = plan.largest[0].bytes;
    what = fmt::format("{} bytes for {}", *facts.wanted, plan.largest[0].what);
  } else if (plan.total_bytes > 0) {
    facts.wanted = plan.total_bytes;
    what = fmt::format("{} bytes", *facts.wanted);
  }
  base::Problem problem{
      .where = facts.place + ", " + facts.stage,
      .got = fmt::format("{}: {} refused, as hardware.fail_allocation asks", memory::oom_class_name(drill.cls), what),
      .wanted = "an allocation that succeeds",
      .next = "take the drill out of hardware.fail_allocation"};
  return {memory::code_of(drill.cls), std::move(problem), std::move(facts)};
}

void raise_drills(const Drills& drills, memory::OomClass cls, const compile::Compiled& compiled,
                  const std::vector<int64_t>& limits) {
  for (const Drill& drill : drills)
    if (drill.cls == cls && drill.chip < compiled.mesh.chips())
      throw drill_error(drill, compiled, limits.empty() ? 0 : limits.at(static_cast<size_t>(drill.chip)));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace megacpp::runtime
