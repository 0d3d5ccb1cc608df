// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/run_measures.h"

#include <algorithm>

namespace megacpp::launch {
namespace {

void add_transfers(runtime::Transfers& all, const runtime::Transfers& other) {
  all.count += other.count;
  all.bytes += other.bytes;
}

}  // namespace

RunMeasures measures_of(const runtime::Executable& run) {
  return {.chips = worst_first(run), .counters = run.counters(), .parts = run.step_parts()};
}

void add_measures(RunMeasures& all, const RunMeasures& other) {
  all.chips.insert(all.chips.end(), other.chips.begin(), other.chips.end());
  put_worst_first(all.chips);
  runtime::Counters& counters = all.counters;
  for (const auto& [cause, count] : other.counters.compiles) counters.compiles[cause] += count;
  counters.compile_seconds = std::max(counters.compile_seconds, other.counters.compile_seconds);
  counters.cache_hits += other.counters.cache_hits;
  counters.executions = std::max(counters.executions, other.counters.executions);
  add_transfers(counters.host_to_device, other.counters.host_to_device);
  add_transfers(counters.device_to_host, other.counters.device_to_host);
  counters.host_syncs += other.counters.host_syncs;
  if (other.parts && (!all.parts || other.parts->seconds() > all.parts->seconds())) all.parts = other.parts;
}

}  // namespace megacpp::launch
