// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/compile_report.h"

#include <array>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/memory/out_of_memory.h"
#include "megacpp/runtime/pjrt/hlo_runs.h"
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
  report.memory_limit = devices[0].memory_limit();
}

void read_back(const CompiledProgram& program, const ir::Mesh& mesh, CompileReport& report) {
  report.memory = program.memory();
  const std::map<std::string, double> cost = program.cost();
  if (const auto at = cost.find("flops"); at != cost.end()) report.flops = at->second;
  if (const auto at = cost.find("bytes accessed"); at != cost.end()) report.bytes_accessed = at->second;
  try {
    const HloProgram optimized = read_hlo_program(program.optimized());
    report.collectives = collectives_of(optimized, mesh);
    report.loop_factor = loop_factor(optimized);
  } catch (const base::Error& error) {
    report.unread = error.problem().where + ": " + error.problem().got;  // the rest of the report stands
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

Json json_of(const CompiledMemory& memory) {
  Json::Object fields;
  for (const auto& [name, field] : kMemoryFields) fields.emplace_back(name, Json::Value(memory.*field));
  return Json::Value(std::move(fields));
}

Json json_of(const XlaCollective& each) {
  return Json::Value(Json::Object{{"kind", Json::Value(each.kind)},
                                  {"axes", Json::Value(each.axes)},
                                  {"parts", Json::Value(each.parts)},
                                  {"bytes_per_call", Json::Value(each.bytes)},
                                  {"calls", Json::Value(each.calls)},
                                  {"at_least", Json::Value(each.at_least)},
                                  {"name", Json::Value(each.name)},
                                  {"op_name", Json::Value(each.op_name)}});
}

template <typename T>
T get(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  const T* value = member == nullptr ? nullptr : member->get_if<T>();
  MEGACPP_CHECK(value != nullptr) << "a report without " << key;
  return *value;
}

XlaCollective collective_of(const Json& json) {
  return {.kind = get<std::string>(json, "kind"),
          .axes = get<std::string>(json, "axes"),
          .parts = get<int64_t>(json, "parts"),
          .bytes = get<int64_t>(json, "bytes_per_call"),
          .calls = get<int64_t>(json, "calls"),
          .at_least = get<bool>(json, "at_least"),
          .name = get<std::string>(json, "name"),
          .op_name = get<std::string>(json, "op_name")};
}

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(Json::Value(*value)) : Json();
}

}  // namespace

CompileReport compile_to_report(const CompileRequest& request) {
  const Plugin& plugin = Plugin::load(request.plugin);
  CompileReport report;
  report.plugin = plugin.identity();
  (request.topology.empty() ? compile_for_devices : compile_for_topology)(plugin, request, report);
  return report;
}

CompileReport compile_in_child(const CompileRequest& request, const ChildRun& run) {
  const std::string text = run_in_child(
      [&] {
        if (run.prepare) run.prepare();
        return base::to_text(to_json(compile_to_report(request)));
      },
      run.limit, run.waiting);
  return report_from_json(base::parse_json(text, base::Code::E3202, "the child's report"));
}

base::Json to_json(const CompileReport& report) {
  Json::Array collectives;
  for (const XlaCollective& each : report.collectives) collectives.push_back(json_of(each));
  return Json::Value(Json::Object{{"plugin", Json::Value(report.plugin)},
                                  {"platform", Json::Value(report.platform)},
                                  {"device_kind", Json::Value(report.device_kind)},
                                  {"devices", Json::Value(report.devices)},
                                  {"memory_limit", json_of(report.memory_limit)},
                                  {"memory", report.memory ? json_of(*report.memory) : Json()},
                                  {"needed_bytes", json_of(report.needed_bytes())},
                                  {"flops", json_of(report.flops)},
                                  {"bytes_accessed", json_of(report.bytes_accessed)},
                                  {"loop_factor", Json::Value(report.loop_factor)},
                                  {"collectives", Json::Value(std::move(collectives))},
                                  {"unread", Json::Value(report.unread)},
                                  {"out_of_memory", Json::Value(report.out_of_memory)},
                                  {"compile_seconds", Json::Value(report.compile_seconds)}});
}

CompileReport report_from_json(const base::Json& json) {
  CompileReport report;
  report.plugin = get<std::string>(json, "plugin");
  report.platform = get<std::string>(json, "platform");
  report.device_kind = get<std::string>(json, "device_kind");
  report.devices = get<int64_t>(json, "devices");
  if (!json.find("memory_limit")->is_null()) report.memory_limit = get<int64_t>(json, "memory_limit");
  if (const Json* memory = json.find("memory"); !memory->is_null()) {
    report.memory.emplace();
    for (const auto& [name, field] : kMemoryFields) (*report.memory).*field = get<int64_t>(*memory, name);
  }
  // A whole number is written without a point and read as an integer.
  report.flops = json.find("flops")->number();
  report.bytes_accessed = json.find("bytes_accessed")->number();
  report.loop_factor = json.find("loop_factor")->number().value_or(1);
  for (const Json& each : get<Json::Array>(json, "collectives")) report.collectives.push_back(collective_of(each));
  report.unread = get<std::string>(json, "unread");
  report.out_of_memory = get<std::string>(json, "out_of_memory");
  report.compile_seconds = json.find("compile_seconds")->number().value_or(0);
  return report;
}

}  // namespace megacpp::runtime::pjrt
