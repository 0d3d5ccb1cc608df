// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin that stands in for the CUDA one where clients of several processes are joined: it takes node_id,
// num_nodes and visible_devices, tells the others of its devices through the key-value callbacks, and runs nothing. It
// "compiles" programs that need 1 MiB, and has 1 GiB of each device. The environment variable STAND_IN_CUDA says how it
// behaves: "alone" joins no processes; "silent" is a node 1 that puts nothing; "broken" is a node 1 that cannot be
// made; "large" compiles programs that need 2 GiB; otherwise well.
#include <pjrt_c_api.h>

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
  int process;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
};

struct PJRT_Client {
  int process = 0;
  std::vector<PJRT_Device> devices;    // of all processes
  std::vector<PJRT_Device*> all, own;  // into `devices`
};

struct PJRT_Executable {};

struct PJRT_LoadedExecutable {
  PJRT_Client* client;
};

namespace {

std::string behaviour_wanted() {
  const char* const variable = std::getenv("STAND_IN_CUDA");
  return variable == nullptr ? "" : variable;
}

PJRT_Error* fail(PJRT_Error_Code code, std::string message) { return new PJRT_Error{code, std::move(message)}; }

void error_destroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_Error* plugin_attributes(PJRT_Plugin_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

// ---- The store of the processes ----

PJRT_Error* callback_error(PJRT_Error_Code code, const char* message, size_t message_size) {
  return fail(code, std::string(message, message_size));
}
PJRT_CallbackError callback_error_pointer = callback_error;

PJRT_Error* put(const PJRT_Client_Create_Args* create, const std::string& key, const std::string& value) {
  PJRT_KeyValuePutCallback_Args args{};
  args.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.callback_error = &callback_error_pointer;
  args.user_arg = create->kv_put_user_arg;
  return create->kv_put_callback(&args);
}

PJRT_Error* get(const PJRT_Client_Create_Args* create, const std::string& key, int milliseconds, std::string& value) {
  PJRT_KeyValueGetCallback_Args args{};
  args.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_in_ms = milliseconds;
  args.callback_error = &callback_error_pointer;
  args.user_arg = create->kv_get_user_arg;
  if (PJRT_Error* error = create->kv_get_callback(&args)) return error;
  value.assign(args.value, args.value_size);
  args.value_deleter_callback(args.value);
  return nullptr;
}

/// Whether the store says at once that a name is not there.
bool misses(const PJRT_Client_Create_Args* create, const std::string& key) {
  PJRT_KeyValueTryGetCallback_Args args{};
  args.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
  args.key = key.data();
  args.key_size = key.size();
  args.callback_error = &callback_error_pointer;
  args.user_arg = create->kv_try_get_user_arg;
  PJRT_Error* const error = create->kv_try_get_callback(&args);
  const bool is_missing = error != nullptr && error->code == PJRT_Error_Code_NOT_FOUND;
  delete error;
  return is_missing;
}

// ---- The client ----

struct Options {
  int64_t node = 0, nodes = 1, devices = 1;
};

Options options_of(const PJRT_Client_Create_Args* args) {
  Options options;
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    if (name == "node_id") options.node = option.int64_value;
    if (name == "num_nodes") options.nodes = option.int64_value;
    if (name == "visible_devices") options.devices = static_cast<int64_t>(option.value_size);
  }
  return options;
}

void add_devices(PJRT_Client& client, int process, int count) {
  for (int i = 0; i < count; ++i)
    client.devices.push_back({{.id = static_cast<int>(client.devices.size()), .process = process}});
}

PJRT_Error* exchange(const PJRT_Client_Create_Args* args, const Options& options, const std::string& behaviour,
                     PJRT_Client& client) {
  if (!misses(args, "nothing")) return fail(PJRT_Error_Code_INTERNAL, "the store has what nobody put");
  const bool is_silent = behaviour == "silent";
  if (!is_silent || options.node != 1)
    if (PJRT_Error* error = put(args, "devices of " + std::to_string(options.node), std::to_string(options.devices)))
      return error;
  for (int64_t node = 0; node < options.nodes; ++node) {
    std::string count;
    if (PJRT_Error* error = get(args, "devices of " + std::to_string(node), is_silent ? 100 : 60'000, count))
      return error;
    add_devices(client, static_cast<int>(node), std::atoi(count.c_str()));
  }
  return nullptr;
}

PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  const std::string behaviour = behaviour_wanted();
  const Options options = options_of(args);
  if (behaviour == "broken" && options.node == 1) return fail(PJRT_Error_Code_INTERNAL, "no kernel image");
  auto* const client = new PJRT_Client;
  if (options.nodes == 1 || behaviour == "alone") {
    add_devices(*client, 0, static_cast<int>(options.devices));
  } else if (PJRT_Error* error = exchange(args, options, behaviour, *client)) {
    delete client;
    return error;
  } else {
    client->process = static_cast<int>(options.node);
  }
  for (PJRT_Device& device : client->devices) {
    client->all.push_back(&device);
    if (device.description.process == client->process) client->own.push_back(&device);
  }
  args->client = client;
  return nullptr;
}

PJRT_Error* client_destroy(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}

PJRT_Error* client_process(PJRT_Client_ProcessIndex_Args* args) {
  args->process_index = args->client->process;
  return nullptr;
}

PJRT_Error* client_devices(PJRT_Client_Devices_Args* args) {
  args->devices = args->client->all.data();
  args->num_devices = args->client->all.size();
  return nullptr;
}

PJRT_Error* client_own_devices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->own.data();
  args->num_addressable_devices = args->client->own.size();
  return nullptr;
}

// ---- Devices ----

PJRT_Error* device_description(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}

PJRT_Error* device_id(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}

PJRT_Error* device_process(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = args->device_description->process;
  return nullptr;
}

PJRT_Error* device_kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "stand-in";
  args->device_kind_size = std::strlen(args->device_kind);
  return nullptr;
}

PJRT_Error* device_text(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = "GPU";
  args->to_string_size = 3;
  return nullptr;
}

PJRT_Error* device_attributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

PJRT_Error* device_memory(PJRT_Device_MemoryStats_Args* args) {
  args->bytes_in_use = 0;
  args->bytes_limit = int64_t{1} << 30;
  args->bytes_limit_is_set = true;
  return nullptr;
}

// ---- Programs ----

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  args->executable = new PJRT_LoadedExecutable{args->client};
  return nullptr;
}

PJRT_Error* loaded_destroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* loaded_executable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  args->executable = new PJRT_Executable;
  return nullptr;
}

PJRT_Error* loaded_devices(PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  args->addressable_devices = args->executable->client->own.data();
  args->num_addressable_devices = args->executable->client->own.size();
  return nullptr;
}

PJRT_Error* executable_destroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* executable_memory(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  args->temp_size_in_bytes = behaviour_wanted() == "large" ? int64_t{1} << 31 : int64_t{1} << 20;
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
  table.PJRT_Client_Create = client_create;
  table.PJRT_Client_Destroy = client_destroy;
  table.PJRT_Client_ProcessIndex = client_process;
  table.PJRT_Client_Devices = client_devices;
  table.PJRT_Client_AddressableDevices = client_own_devices;
  table.PJRT_Device_GetDescription = device_description;
  table.PJRT_DeviceDescription_Id = device_id;
  table.PJRT_DeviceDescription_ProcessIndex = device_process;
  table.PJRT_DeviceDescription_Kind = device_kind;
  table.PJRT_DeviceDescription_ToString = device_text;
  table.PJRT_DeviceDescription_Attributes = device_attributes;
  table.PJRT_Device_MemoryStats = device_memory;
  table.PJRT_Client_Compile = compile;
  table.PJRT_LoadedExecutable_Destroy = loaded_destroy;
  table.PJRT_LoadedExecutable_GetExecutable = loaded_executable;
  table.PJRT_LoadedExecutable_AddressableDevices = loaded_devices;
  table.PJRT_Executable_Destroy = executable_destroy;
  table.PJRT_Executable_GetCompiledMemoryStats = executable_memory;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = make_table();
  return &table;
}
