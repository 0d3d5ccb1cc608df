// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/fault_injection.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "megacpp/program/memory/chip_fit.h"

namespace megacpp::runtime {
namespace {

std::string phase_of(const Fault& fault) {
  switch (fault.cls) {
    case memory::OomClass::compile:
      return "compiling";
    case memory::OomClass::load:
      return "loading";
    default:
      return "step " + std::to_string(fault.step);
  }
}

}  // namespace

bool is_injected_at(const Faults& faults, const Fault& moment) {
  return std::find(faults.begin(), faults.end(), moment) != faults.end();
}

memory::OutOfMemory injected_error(const Fault& fault, const compile::Compiled& compiled, int64_t limit_bytes) {
  const memory::MemoryPlan& plan = compiled.programs_of(fault.chip).memory;
  // In a step it is one buffer that fails, before that all of them.
  const bool is_in_step = fault.cls == memory::OomClass::runtime;
  memory::OomFacts facts{.cls = fault.cls,
                         .phase = phase_of(fault),
                         .chip = fault.chip,
                         .place = memory::place_of(fault.chip, compiled.mesh, host_name()),
                         .step = fault.step,
                         .roles = memory::bytes_by_role(plan),
                         .largest = memory::pieces_of(plan),
                         .is_injected = true};
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
      .where = facts.place + ", " + facts.phase,
      .got = fmt::format("{}: {} refused, as hardware.fail_allocation asks", memory::oom_class_name(fault.cls), what),
      .wanted = "an allocation that succeeds",
      .next = "take the fault out of hardware.fail_allocation"};
  return {memory::code_of(fault.cls), std::move(problem), std::move(facts)};
}

void raise_faults(const Faults& faults, memory::OomClass cls, const compile::Compiled& compiled,
                  const std::vector<int64_t>& limits) {
  for (const Fault& fault : faults)
    if (fault.cls == cls && fault.chip < compiled.mesh.chips())
      throw injected_error(fault, compiled, limits.empty() ? 0 : limits.at(static_cast<size_t>(fault.chip)));
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace megacpp::runtime
