// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin that stands in for the TPU's where there is none: it makes topologies of v6e and "compiles" for them,
// with fixed answers. The environment variable STAND_IN_TPU says how it behaves when it compiles: "full", "abort",
// "hang", "odd"; or what is not as it was in its answers: "other-program", "damaged-program", "other-counts" or one of
// kAccounts; otherwise well. STAND_IN_TPU_BUILD is what it says of its build. Like the real one it cannot be set up
// without TPU_SKIP_MDS_QUERY.
#include <pjrt_c_api.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};

struct PJRT_DeviceDescription {
  int id;
};

struct PJRT_TopologyDescription {
  std::vector<PJRT_DeviceDescription> devices;
  std::vector<PJRT_DeviceDescription*> pointers;
  std::string version;
};

struct PJRT_Executable {
  std::string optimized;
};

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

PJRT_Error* fail(PJRT_Error_Code code, std::string message) { return new PJRT_Error{code, std::move(message)}; }

PJRT_NamedValue named(const char* name, PJRT_NamedValue_Type type) {
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = name;
  value.name_size = std::strlen(name);
  value.type = type;
  value.value_size = 1;
  return value;
}

// ---- Errors and the plugin ----

void error_destroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) {
  if (variable("TPU_SKIP_MDS_QUERY") == "1" && variable("ALLOW_MULTIPLE_LIBTPU_LOAD") == "1") return nullptr;
  return fail(PJRT_Error_Code_FAILED_PRECONDITION, "the real one would wait for a metadata server");
}

PJRT_Error* plugin_attributes(PJRT_Plugin_Attributes_Args* args) {
  static PJRT_NamedValue version = named("xla_version", PJRT_NamedValue_kInt64);
  version.int64_value = 2;
  args->attributes = &version;
  args->num_attributes = 1;
  return nullptr;
}

// ---- Topologies ----

bool has_option(const PJRT_TopologyDescription_Create_Args* args, const std::string& name) {
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    if (name == std::string(option.name, option.name_size))
      return option.type == PJRT_NamedValue_kInt64List && option.value_size == 3;
  }
  return false;
}

PJRT_Error* topology_create(PJRT_TopologyDescription_Create_Args* args) {
  const std::string name(args->topology_name, args->topology_name_size);
  int x = 0, y = 0;
  if (std::sscanf(name.c_str(), "v6e:%dx%d", &x, &y) != 2 || x * y > 256 || (x & (x - 1)) != 0)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "Unknown topology");
  if (has_option(args, "chips_per_host_bounds") != (x * y == 1) || has_option(args, "wrap") != (y == 16))
    return fail(PJRT_Error_Code_INTERNAL, "the options do not fit the slice");
  auto* topology = new PJRT_TopologyDescription;
  for (int i = 0; i < x * y; ++i) topology->devices.push_back({i});
  for (PJRT_DeviceDescription& device : topology->devices) topology->pointers.push_back(&device);
  topology->version = "stand-in, flags: " + variable("LIBTPU_INIT_ARGS") + "\n" + variable("STAND_IN_TPU_BUILD");
  args->topology = topology;
  return nullptr;
}

PJRT_Error* topology_destroy(PJRT_TopologyDescription_Destroy_Args* args) {
  delete args->topology;
  return nullptr;
}

PJRT_Error* topology_platform(PJRT_TopologyDescription_PlatformName_Args* args) {
  args->platform_name = "tpu";
  args->platform_name_size = 3;
  return nullptr;
}

PJRT_Error* topology_version(PJRT_TopologyDescription_PlatformVersion_Args* args) {
  args->platform_version = args->topology->version.data();
  args->platform_version_size = args->topology->version.size();
  return nullptr;
}

PJRT_Error* topology_devices(PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) {
  args->descriptions = args->topology->pointers.data();
  args->num_descriptions = args->topology->pointers.size();
  return nullptr;
}

PJRT_Error* device_id(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* device_process(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = 0;
  return nullptr;
}

PJRT_Error* device_kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "TPU v6 lite";
  args->device_kind_size = std::strlen(args->device_kind);
  return nullptr;
}

PJRT_Error* device_text(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = "TPU";
  args->to_string_size = 3;
  return nullptr;
}

PJRT_Error* device_attributes(PJRT_DeviceDescription_Attributes_Args* args) {
  static PJRT_NamedValue limit = named("device_memory_bytes_limit", PJRT_NamedValue_kInt64);
  limit.int64_value = variable("STAND_IN_TPU") == "other-counts" ? -1 : 33'546'039'296;
  args->attributes = &limit;
  args->num_attributes = 1;
  return nullptr;
}

// ---- Programs ----

// Fields of protobuf messages of fewer than 128 bytes.
std::string text_field(int field, const std::string& text) {
  std::string bytes;
  const int tag = field << 3 | 2;
  if (tag < 128)
    bytes.push_back(static_cast<char>(tag));
  else
    bytes += {static_cast<char>((tag & 127) | 128), static_cast<char>(tag >> 7)};
  bytes.push_back(static_cast<char>(text.size()));
  return bytes + text;
}
std::string number_field(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }

/// f32[8] gathered by all chips that there are, in groups of two neighbours.
std::string one_all_gather(size_t chips) {
  const int pairs = static_cast<int>(chips / 2);  // at most 127
  const std::string shape = number_field(2, 11) + text_field(3, std::string(1, 8));
  const std::string groups = number_field(1, pairs) + number_field(2, 2) + text_field(3, {static_cast<char>(pairs), 2});
  const std::string gather =
      text_field(1, "ag") + text_field(2, "all-gather") + text_field(3, shape) + text_field(92, groups);
  const std::string main = text_field(1, "main") + text_field(2, gather) + number_field(5, 1);
  return text_field(1, text_field(1, "step") + text_field(3, main) + number_field(6, 1));
}

PJRT_Error* compile(PJRT_Compile_Args* args) {
  const std::string behaviour = variable("STAND_IN_TPU");
  if (behaviour == "abort") {
    std::fprintf(stderr, "F0000 compiler.cc:1] Check failed: shape.IsArray()\n");
    std::abort();
  }
  if (behaviour == "hang")
    while (true) ::sleep(1);
  if (behaviour == "full")
    return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                "Ran out of memory on HBM, the total memory required for HLO temporaries (62.12G) exceeds available "
                "HBM (31.24G). HLO module: step.");
  if (behaviour == "odd") return fail(PJRT_Error_Code_INTERNAL, "Mosaic failed to compile");
  args->executable = new PJRT_Executable{one_all_gather(args->topology->devices.size())};
  if (behaviour == "damaged-program") args->executable->optimized.pop_back();
  return nullptr;
}

PJRT_Error* executable_destroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

/// What it says of memory, in bytes: the first unless STAND_IN_TPU names another. The first two are those of a program,
/// by an old compiler and by one that counts temporaries of loops twice; no program can have one of the others.
struct Account {
  const char* name;
  int64_t code, argument, temp, peak;
  int64_t placed = 0;  // total_allocation_bytes, where it has them
};
constexpr Account kAccounts[] = {
    {"", 495'963'648, 1'661'772'288, 4'430'803'008, 5'722'190'592},
    {"placed-bytes", 495'963'648, 1'661'772'288, 4'430'803'008, 5'722'190'592, 5'732'190'592},
    {"no-bytes", 0, 0, 0, 0},
    {"negative-bytes", 495'963'648, 1'661'772'288, -4'430'803'008, 5'722'190'592},
    {"peak-above-all", 495'963'648, 1'661'772'288, 4'430'803'008, 61'000'000'000},
    {"bytes-of-no-chip", 495'963'648, 1'661'772'288, INT64_MAX, 5'722'190'592},
};

const Account& account() {
  for (const Account& each : kAccounts)
    if (each.name == variable("STAND_IN_TPU")) return each;
  return kAccounts[0];
}

// Version 0.104 of the C API has two fields behind the peak before it has this one.
void say_placed_bytes(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  constexpr size_t kPlace = offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes) + 16;
  if (args->struct_size < kPlace + sizeof(int64_t)) return;
  std::memcpy(reinterpret_cast<std::byte*>(args) + kPlace, &account().placed, sizeof(int64_t));
}

PJRT_Error* executable_memory(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  args->generated_code_size_in_bytes = account().code;
  args->argument_size_in_bytes = account().argument;
  args->temp_size_in_bytes = account().temp;
  args->peak_memory_in_bytes = account().peak;
  say_placed_bytes(args);
  return nullptr;
}

PJRT_Error* executable_cost(PJRT_Executable_GetCostAnalysis_Args* args) {
  static PJRT_NamedValue cost[] = {named("flops", PJRT_NamedValue_kFloat),
                                   named("bytes accessed", PJRT_NamedValue_kFloat)};
  cost[0].float_value = variable("STAND_IN_TPU") == "other-counts" ? -1 : 12.92e12F;
  cost[1].float_value = 1.5e11F;
  args->properties = cost;
  args->num_properties = 2;
  return nullptr;
}

PJRT_Error* executable_program(PJRT_Executable_OptimizedProgram_Args* args) {
  const std::string& code = args->executable->optimized;
  args->program->format = variable("STAND_IN_TPU") == "other-program" ? "hlo_of_tomorrow" : "hlo_with_config";
  args->program->format_size = std::strlen(args->program->format);
  if (args->program->code != nullptr) std::memcpy(args->program->code, code.data(), code.size());
  args->program->code_size = code.size();
  return nullptr;
}

PJRT_Api make_table() {
  PJRT_Api table{};
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  table.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  table.pjrt_api_version.minor_version = PJRT_API_MINOR;
  table.PJRT_Error_Destroy = error_destroy;
  table.PJRT_Error_Message = error_message;
  table.PJRT_Error_GetCode = error_code;
  table.PJRT_Plugin_Initialize = initialize;
  table.PJRT_Plugin_Attributes = plugin_attributes;
  table.PJRT_TopologyDescription_Create = topology_create;
  table.PJRT_TopologyDescription_Destroy = topology_destroy;
  table.PJRT_TopologyDescription_PlatformName = topology_platform;
  table.PJRT_TopologyDescription_PlatformVersion = topology_version;
  table.PJRT_TopologyDescription_GetDeviceDescriptions = topology_devices;
  table.PJRT_DeviceDescription_Id = device_id;
  table.PJRT_DeviceDescription_ProcessIndex = device_process;
  table.PJRT_DeviceDescription_Kind = device_kind;
  table.PJRT_DeviceDescription_ToString = device_text;
  table.PJRT_DeviceDescription_Attributes = device_attributes;
  table.PJRT_Compile = compile;
  table.PJRT_Executable_Destroy = executable_destroy;
  table.PJRT_Executable_GetCompiledMemoryStats = executable_memory;
  table.PJRT_Executable_GetCostAnalysis = executable_cost;
  table.PJRT_Executable_OptimizedProgram = executable_program;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = make_table();
  return &table;
}
