// SPDX-License-Identifier: Apache-2.0
// The members of a compile report (base/record.h), as the process that compiled tells them and commands print them. For
// .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/machine/xla/pjrt/compile_report.h"

namespace megacpp::runtime::pjrt {

template <typename Visit, base::Is<CompiledMemory> Self>
void visit_fields(const Visit& visit, Self& memory) {
  visit("argument", memory.argument, "bytes");
  visit("output", memory.output);
  visit("alias", memory.alias, "of output, aliased with arguments");
  visit("temp", memory.temp, "as they are placed, with the gaps between them");
  visit("peak", memory.peak, "alive at once, without these gaps");
  visit("code", memory.code);
  visit("host_argument", memory.host_argument);
  visit("host_output", memory.host_output);
  visit("host_alias", memory.host_alias);
  visit("host_temp", memory.host_temp);
  visit("host_code", memory.host_code);
}

template <typename Visit, base::Is<XlaCollective> Self>
void visit_fields(const Visit& visit, Self& collective) {
  visit("kind", collective.kind);
  visit("axes", collective.axes);
  visit("parts", collective.parts, "chips in a group");
  visit("bytes_per_call", collective.bytes, "that a chip sends");
  visit("calls", collective.calls, "per run of the program");
  visit("at_least", collective.at_least, "a loop around it has a length the compiler did not note");
  visit("name", collective.name, "XLA's");
  visit("op_name", collective.op_name, "what the program's text says it is for");
}

template <typename Visit, base::Is<CompileReport> Self>
void visit_fields(const Visit& visit, Self& report) {
  visit("plugin", report.plugin, "its identity");
  visit("platform", report.platform);
  visit("device_kind", report.device_kind);
  visit("devices", report.devices);
  visit("memory_limit", report.memory_limit, "bytes of a device, where the plugin says so");
  visit("memory", report.memory);
  if constexpr (std::is_const_v<Self>) visit("needed_bytes", report.needed_bytes());
  visit("flops", report.flops, "XLA's cost: the body of a loop counts once");
  visit("bytes_accessed", report.bytes_accessed);
  visit("loop_factor", report.loops.factor, "how much more is multiplied with loops as often as they run");
  visit("loop_factor_at_least", report.loops.at_least);
  visit("collectives", report.collectives);
  visit("odd_memory", report.odd_memory, "what in the plugin's account of memory cannot be");
  visit("unread", report.unread, "why the optimized program could not be read; empty: it was");
  visit("out_of_memory", report.out_of_memory, "what the plugin said where the program does not fit");
  visit("compile_seconds", report.compile_seconds);
}

}  // namespace megacpp::runtime::pjrt
