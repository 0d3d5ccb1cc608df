// SPDX-License-Identifier: Apache-2.0
// A module compiled to see what becomes of it: memory, cost and collectives as the compiler left them. Nothing is run,
// and with a topology no device is needed. Numbers are those of one chip.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/child_process.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/xla/pjrt/compile_options.h"
#include "megacpp/machine/xla/pjrt/compiled_program.h"
#include "megacpp/machine/xla/pjrt/hlo_runs.h"
#include "megacpp/machine/xla/pjrt/named_value.h"
#include "megacpp/machine/xla/pjrt/xla_collectives.h"

namespace megacpp::runtime::pjrt {

struct CompileRequest {
  std::filesystem::path plugin;
  const std::string& stablehlo;
  const ir::Mesh& mesh;  // the module's
  std::map<std::string, FlagValue> flags = {};
  std::string topology = {};  // "v6e:4x4"; empty: the plugin's own devices
  std::vector<NamedValue> topology_options = {};
};

struct CompileReport {
  std::string plugin;       // its identity
  std::string platform;     // "tpu", and the version it gives itself
  std::string device_kind;  // "TPU v6 lite"
  int64_t devices = 0;
  std::optional<int64_t> memory_limit;  // bytes of a device, where the plugin says so
  std::optional<CompiledMemory> memory;
  std::optional<double> flops;  // XLA's cost: the body of a loop counts once
  std::optional<double> bytes_accessed;
  LoopFactor loops;  // how much more is multiplied with loops as often as they run; at least so much where unread
  std::vector<XlaCollective> collectives;
  std::string odd_memory;     // what in the plugin's account of memory cannot be, so that there is no `memory`
  std::string unread;         // why the optimized program could not be read; empty: it was
  std::string out_of_memory;  // what the plugin said where the program does not fit; then nothing below `memory_limit`
  double compile_seconds = 0;

  std::optional<int64_t> needed_bytes() const { return memory ? std::optional(memory->needed()) : std::nullopt; }
};

/// What in an account of memory no program can have: negative bytes, more than any chip holds, a peak above all that is
/// needed. Empty for one that can be.
std::string contradiction_in(const CompiledMemory& memory);

/// E1504 when the plugin has fewer devices than the mesh, or the topology another number. A program that does not fit
/// is no error here.
CompileReport compile_to_report(const CompileRequest& request);

/// The same in a child process; `prepare` runs there before the plugin is loaded. Errors as in child_process.h.
struct ChildRun {
  std::function<void()> prepare = {};
  std::chrono::milliseconds limit = std::chrono::seconds(1800);
  base::Waiting waiting = {};
};
CompileReport compile_in_child(const CompileRequest& request, const ChildRun& run);

base::Json to_json(const CompileReport& report);
CompileReport report_from_json(const base::Json& json);

}  // namespace megacpp::runtime::pjrt
