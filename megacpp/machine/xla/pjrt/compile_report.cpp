// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/compile_report.h"

#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/machine/xla/pjrt/compile_report_fields.h"
#include "megacpp/machine/xla/pjrt/program.h"
#include "megacpp/machine/xla/pjrt/status.h"
#include "megacpp/machine/xla/pjrt/step_module.h"
#include "megacpp/machine/xla/pjrt/topology.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::pjrt {
namespace {

void describe_devices(const std::vector<DeviceDescription>& devices, CompileReport& report) {
  report.devices = static_cast<int64_t>(devices.size());
  if (devices.empty()) return;
  report.device_kind = devices[0].kind;
  const std::optional<int64_t> limit = devices[0].memory_limit();
  if (limit && *limit > 0) report.memory_limit = limit;
}

void read_memory(const CompiledProgram& program, CompileReport& report) {
  report.memory = program.memory();
  if (report.memory) report.odd_memory = contradiction_in(*report.memory);
  if (!report.odd_memory.empty()) report.memory.reset();
}

/// XLA gives negative numbers for what it cannot count.
std::optional<double> counted(const std::map<std::string, double>& cost, const std::string& name) {
  const auto at = cost.find(name);
  const bool is_count = at != cost.end() && std::isfinite(at->second) && at->second >= 0;
  return is_count ? std::optional(at->second) : std::nullopt;
}

void read_back(const CompiledProgram& program, const ir::Mesh& mesh, CompileReport& report) {
  read_memory(program, report);
  const std::map<std::string, double> cost = program.cost();
  report.flops = counted(cost, "flops");
  report.bytes_accessed = counted(cost, "bytes accessed");
  try {
    const HloProgram optimized = read_hlo_program(program.optimized());
    report.collectives = collectives_of(optimized, mesh);
    report.loops = loop_factor(optimized);
  } catch (const base::Error& error) {
    report.unread = error.problem().where + ": " + error.problem().got;  // the rest of the report stands
    report.loops.at_least = true;
  }
}

const CompiledProgram& as_compiled(const CompiledProgram& program) { return program; }
const CompiledProgram& as_compiled(const LoadedProgram& program) { return program.compiled(); }

/// Compiles by `compile`, timed; that it does not fit goes into the report.
template <typename Compile>
void compile_timed(const Compile& compile, const ir::Mesh& mesh, CompileReport& report) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  try {
    const auto program = compile();
    report.compile_seconds = seconds();
    read_back(as_compiled(program), mesh, report);
  } catch (const memory::OutOfMemory& error) {
    report.compile_seconds = seconds();
    report.out_of_memory = error.facts().text;
  }
}

void compile_for_topology(const Plugin& plugin, const CompileRequest& request, CompileReport& report) {
  const Topology topology(plugin, request.topology, request.topology_options);
  report.platform = topology.platform_name() + ", " + topology.platform_version();
  describe_devices(topology.devices(), report);
  MEGACPP_REQUIRE(
      report.devices == request.mesh.chips(), E1504,
      ({.where = "topology " + request.topology,
        .got = std::to_string(report.devices) + " devices",
        .wanted = std::to_string(request.mesh.chips()) + ", the chips of the mesh " + to_string(request.mesh),
        .next = "change the degrees of the layout, or the topology"}));
  compile_timed(
      [&] {
        return topology.compile(request.stablehlo,
                                options_for(topology.devices(), request.mesh.chips(), request.flags));
      },
      request.mesh, report);
}

void compile_for_devices(const Plugin& plugin, const CompileRequest& request, CompileReport& report) {
  const Client client = client_for(plugin, request.mesh.chips());
  report.platform = client.platform_name() + ", " + client.platform_version();
  describe_devices(client.devices(), report);
  if (const auto memory = client.memory(0); memory && !report.memory_limit) report.memory_limit = memory->bytes_limit;
  compile_timed(
      [&] {
        return compile(client, request.stablehlo, options_for(client.devices(), request.mesh.chips(), request.flags));
      },
      request.mesh, report);
}

// Far above any chip, so that sums of all parts stay numbers.
constexpr int64_t kLargestAccount = 1'000'000'000'000'000;
// Constants count in the peak and in no part of what is needed; those of a training step are small.
constexpr int64_t kMostConstants = int64_t{16} << 20;

}  // namespace

std::string contradiction_in(const CompiledMemory& memory) {
  std::string odd;
  const auto check = [&odd](const char* name, int64_t bytes, const auto&... /*about*/) {
    if (odd.empty() && (bytes < 0 || bytes > kLargestAccount))
      odd = std::string(name) + " of " + std::to_string(bytes) + " bytes";
  };
  visit_fields(check, memory);
  if (!odd.empty()) return odd;
  const int64_t needed = memory.needed();
  if (memory.alias > memory.output)
    return "alias of " + std::to_string(memory.alias) + " bytes in an output of " + std::to_string(memory.output);
  if (needed <= memory.code) return "no bytes beside the code";
  if (memory.peak > needed + kMostConstants)
    return "a peak of " + std::to_string(memory.peak) + " bytes where " + std::to_string(needed) + " are needed in all";
  return {};
}

CompileReport compile_to_report(const CompileRequest& request) {
  const Plugin& plugin = Plugin::load(request.plugin);
  CompileReport report;
  report.plugin = plugin.identity();
  (request.topology.empty() ? compile_for_devices : compile_for_topology)(plugin, request, report);
  return report;
}

CompileReport compile_in_child(const CompileRequest& request, const ChildRun& run) {
  const std::string text = base::run_in_child(
      [&] {
        if (run.prepare) run.prepare();
        return base::to_text(to_json(compile_to_report(request)));
      },
      run.limit, run.waiting);
  return report_from_json(base::parse_json(text, base::Code::E3202, "the child's report"));
}

base::Json to_json(const CompileReport& report) { return base::record_json(report); }

// The process that wrote the report had a plugin in it, which may have damaged it.
CompileReport report_from_json(const base::Json& json) {
  return base::whole_record<CompileReport>(json, [](const std::string& path, std::string_view wanted) {
    base::raise(base::Code::E3202, {.where = "the report of the process that compiled",
                                    .got = path + " that is not " + std::string(wanted),
                                    .wanted = "a whole report",
                                    .next = "compile again; if it stays, try another version of the plugin"});
  });
}

}  // namespace megacpp::runtime::pjrt
