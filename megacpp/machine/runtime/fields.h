// SPDX-License-Identifier: Apache-2.0
// The members of what a run measures of itself (base/record.h): processes of a run tell them each other, and commands
// print them. For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/machine/runtime/counters.h"
#include "megacpp/machine/runtime/executable.h"

namespace megacpp::runtime {

template <typename Visit, base::Is<Transfers> Self>
void visit_fields(const Visit& visit, Self& transfers) {
  visit("count", transfers.count);
  visit("bytes", transfers.bytes);
}

template <typename Visit, base::Is<Counters> Self>
void visit_fields(const Visit& visit, Self& counters) {
  visit("compiles", counters.compiles, "by cause");
  visit("compile_seconds", counters.compile_seconds);
  visit("cache_hits", counters.cache_hits);
  visit("executions", counters.executions, "one for all devices of a program");
  visit("host_syncs", counters.host_syncs, "times the host waited for a device");
  visit("host_to_device", counters.host_to_device);
  visit("device_to_host", counters.device_to_host);
}

template <typename Visit, base::Is<TierUse> Self>
void visit_fields(const Visit& visit, Self& use) {
  visit("tier", use.tier);
  visit("planned_bytes", use.planned_bytes);
  visit("measured_bytes", use.measured_bytes);
}

template <typename Visit, base::Is<ChipMemory> Self>
void visit_fields(const Visit& visit, Self& memory) {
  visit("bytes_used", memory.used_bytes, "now");
  visit("bytes_limit", memory.limit_bytes);
  visit("planned_peak_bytes", memory.planned_peak_bytes);
  visit("measured_peak_bytes", memory.measured_peak_bytes);
  visit("away", memory.away, "in other tiers than the device's");
}

template <typename Visit, base::Is<StepParts> Self>
void visit_fields(const Visit& visit, Self& parts) {
  visit("arithmetic", parts.arithmetic, "seconds");
  visit("memory", parts.memory);
  visit("links", parts.links);
  visit("bubble", parts.bubble);
  visit("other", parts.other);
}

template <typename Visit, base::Is<OpSeconds> Self>
void visit_fields(const Visit& visit, Self& op) {
  visit("program", op.program, "its kind");
  visit("op", op.op);
  visit("seconds", op.seconds);
}

}  // namespace megacpp::runtime
