// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/compile_report.h"

#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/memory/out_of_memory.h"
#include "megacpp/runtime/pjrt/program.h"
#include "megacpp/runtime/pjrt/status.h"
#include "megacpp/runtime/pjrt/step_module.h"
#include "megacpp/runtime/pjrt/topology.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Json;

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

// ---- As text between processes ----

using MemoryField = std::pair<const char*, int64_t CompiledMemory::*>;
constexpr std::array<MemoryField, 11> kMemoryFields = {{{"argument", &CompiledMemory::argument},
                                                        {"output", &CompiledMemory::output},
                                                        {"alias", &CompiledMemory::alias},
                                                        {"temp", &CompiledMemory::temp},
                                                        {"peak", &CompiledMemory::peak},
                                                        {"code", &CompiledMemory::code},
                                                        {"host_argument", &CompiledMemory::host_argument},
                                                        {"host_output", &CompiledMemory::host_output},
                                                        {"host_alias", &CompiledMemory::host_alias},
                                                        {"host_temp", &CompiledMemory::host_temp},
                                                        {"host_code", &CompiledMemory::host_code}}};

// Far above any chip, so that sums of all parts stay numbers.
constexpr int64_t kLargestAccount = 1'000'000'000'000'000;
// Constants count in the peak and in no part of what is needed; those of a training step are small.
constexpr int64_t kMostConstants = int64_t{16} << 20;

Json json_of(const CompiledMemory& memory) {
  Json fields = Json::object();
  for (const auto& [name, field] : kMemoryFields) fields[std::string(name)] = memory.*field;
  return fields;
}

Json json_of(const XlaCollective& each) {
  return {{"kind", each.kind},   {"axes", each.axes},         {"parts", each.parts}, {"bytes_per_call", each.bytes},
          {"calls", each.calls}, {"at_least", each.at_least}, {"name", each.name},   {"op_name", each.op_name}};
}

/// A member that must be there. The process that wrote the report had a plugin in it, which may have damaged it.
const Json& member_at(const Json& object, std::string_view key) {
  const Json* const member = base::find_member(object, key);
  MEGACPP_REQUIRE(member != nullptr, E3202,
                  ({.where = "the report of the process that compiled",
                    .got = "no member '" + std::string(key) + "'",
                    .wanted = "a whole report",
                    .next = "compile again; if it stays, try another version of the plugin"}));
  return *member;
}

/// What `as` reads from such a member.
template <typename As>
auto get(const Json& object, std::string_view key, const As& as) {
  const Json& member = member_at(object, key);
  const auto value = as(member);
  MEGACPP_REQUIRE(value, E3202,
                  ({.where = "the report of the process that compiled, " + std::string(key),
                    .got = std::string(base::kind_name(member)),
                    .wanted = "a whole report",
                    .next = "compile again; if it stays, try another version of the plugin"}));
  return *value;
}
std::string text_at(const Json& object, std::string_view key) { return get(object, key, base::as_text); }
int64_t integer_at(const Json& object, std::string_view key) { return get(object, key, base::as_integer); }

XlaCollective collective_of(const Json& json) {
  return {.kind = text_at(json, "kind"),
          .axes = text_at(json, "axes"),
          .parts = integer_at(json, "parts"),
          .bytes = integer_at(json, "bytes_per_call"),
          .calls = integer_at(json, "calls"),
          .at_least = get(json, "at_least", base::as_flag),
          .name = text_at(json, "name"),
          .op_name = text_at(json, "op_name")};
}

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::string contradiction_in(const CompiledMemory& memory) {
  for (const auto& [name, field] : kMemoryFields)
    if (const int64_t bytes = memory.*field; bytes < 0 || bytes > kLargestAccount)
      return std::string(name) + " of " + std::to_string(bytes) + " bytes";
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

base::Json to_json(const CompileReport& report) {
  Json collectives = Json::array();
  for (const XlaCollective& each : report.collectives) collectives.push_back(json_of(each));
  return {{"plugin", report.plugin},
          {"platform", report.platform},
          {"device_kind", report.device_kind},
          {"devices", report.devices},
          {"memory_limit", json_of(report.memory_limit)},
          {"memory", report.memory ? json_of(*report.memory) : Json()},
          {"needed_bytes", json_of(report.needed_bytes())},
          {"flops", json_of(report.flops)},
          {"bytes_accessed", json_of(report.bytes_accessed)},
          {"loop_factor", report.loops.factor},
          {"loop_factor_at_least", report.loops.at_least},
          {"collectives", std::move(collectives)},
          {"odd_memory", report.odd_memory},
          {"unread", report.unread},
          {"out_of_memory", report.out_of_memory},
          {"compile_seconds", report.compile_seconds}};
}

CompileReport report_from_json(const base::Json& json) {
  CompileReport report;
  report.plugin = text_at(json, "plugin");
  report.platform = text_at(json, "platform");
  report.device_kind = text_at(json, "device_kind");
  report.devices = integer_at(json, "devices");
  if (!member_at(json, "memory_limit").is_null()) report.memory_limit = integer_at(json, "memory_limit");
  if (const Json& memory = member_at(json, "memory"); !memory.is_null()) {
    report.memory.emplace();
    for (const auto& [name, field] : kMemoryFields) (*report.memory).*field = integer_at(memory, name);
  }
  report.flops = base::as_number(member_at(json, "flops"));
  report.bytes_accessed = base::as_number(member_at(json, "bytes_accessed"));
  report.loops.factor = get(json, "loop_factor", base::as_number);
  report.loops.at_least = get(json, "loop_factor_at_least", base::as_flag);
  for (const Json& each : member_at(json, "collectives")) report.collectives.push_back(collective_of(each));
  report.odd_memory = text_at(json, "odd_memory");
  report.unread = text_at(json, "unread");
  report.out_of_memory = text_at(json, "out_of_memory");
  report.compile_seconds = get(json, "compile_seconds", base::as_number);
  return report;
}

}  // namespace megacpp::runtime::pjrt
