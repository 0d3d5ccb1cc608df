// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/client.h"

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/client_state.h"
#include "megacpp/machine/xla/pjrt/key_value_callbacks.h"

namespace megacpp::runtime::pjrt {
namespace {

void destroy_client(const Api& api, void* object) noexcept {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_Destroy);
  args.client = static_cast<PJRT_Client*>(object);
  api.destroy(&PJRT_Api::PJRT_Client_Destroy, args);
}

Handle create_client(const Api& api, const ClientRequest& request) {
  const std::vector<PJRT_NamedValue> arguments = named_arguments(request.options);
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_Create);
  args.create_options = arguments.data();
  args.num_options = arguments.size();
  if (request.store) serve_key_values(args, *request.store);
  api.call(&PJRT_Api::PJRT_Client_Create, args, Phase::create_client);
  return {api, args.client, destroy_client};
}

std::vector<PJRT_Device*> addressable_devices(const Api& api, const Handle& client) {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_AddressableDevices);
  args.client = as<PJRT_Client>(client);
  api.call(&PJRT_Api::PJRT_Client_AddressableDevices, args, Phase::query);
  return {args.addressable_devices, args.addressable_devices + args.num_addressable_devices};
}

DeviceDescription describe_device(const Api& api, PJRT_Device* device) {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Device_GetDescription);
  args.device = device;
  api.call(&PJRT_Api::PJRT_Device_GetDescription, args, Phase::query);
  return describe(api, args.device_description);
}

std::optional<int64_t> when(bool is_set, int64_t value) { return is_set ? std::optional(value) : std::nullopt; }

}  // namespace

Client::Client(const Plugin& plugin, const ClientRequest& request) : state_(std::make_shared<ClientState>()) {
  const Api& api = plugin.api();
  state_->plugin = &plugin;
  state_->store = request.store;
  state_->client = create_client(api, request);
  state_->devices = addressable_devices(api, state_->client);
  for (PJRT_Device* device : state_->devices) devices_.push_back(describe_device(api, device));
  MEGACPP_REQUIRE(std::ssize(devices_) >= request.devices, E1504,
                  ({.where = api.plugin(),
                    .got = std::to_string(devices_.size()) + " devices",
                    .wanted = std::to_string(request.devices),
                    .next = "lower the degrees of the layout, or give the plugin more devices"}));
}

const Plugin& Client::plugin() const { return *state_->plugin; }

std::string Client::platform_name() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_PlatformName);
  args.client = as<PJRT_Client>(state_->client);
  state_->api().call(&PJRT_Api::PJRT_Client_PlatformName, args, Phase::query);
  return {args.platform_name, args.platform_name_size};
}

std::string Client::platform_version() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_PlatformVersion);
  args.client = as<PJRT_Client>(state_->client);
  state_->api().call(&PJRT_Api::PJRT_Client_PlatformVersion, args, Phase::query);
  return {args.platform_version, args.platform_version_size};
}

std::vector<DeviceDescription> Client::all_devices() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_Devices);
  args.client = as<PJRT_Client>(state_->client);
  state_->api().call(&PJRT_Api::PJRT_Client_Devices, args, Phase::query);
  std::vector<DeviceDescription> all;
  for (size_t i = 0; i < args.num_devices; ++i) all.push_back(describe_device(state_->api(), args.devices[i]));
  return all;
}

int Client::process_index() const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Client_ProcessIndex);
  args.client = as<PJRT_Client>(state_->client);
  state_->api().call(&PJRT_Api::PJRT_Client_ProcessIndex, args, Phase::query);
  return args.process_index;
}

std::optional<DeviceMemory> Client::memory(size_t device) const {
  auto args = MEGACPP_PJRT_ARGS(PJRT_Device_MemoryStats);
  args.device = state_->devices.at(device);
  if (auto failure = state_->api().try_call(&PJRT_Api::PJRT_Device_MemoryStats, args)) {
    if (failure->code == StatusCode::unimplemented) return std::nullopt;
    state_->api().raise(std::move(*failure), Phase::query);
  }
  return DeviceMemory{
      .bytes_in_use = args.bytes_in_use,
      .peak_bytes_in_use = when(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
      .bytes_limit = when(args.bytes_limit_is_set, args.bytes_limit),
      .largest_allocation = when(args.largest_alloc_size_is_set, args.largest_alloc_size),
      .bytes_reserved = when(args.bytes_reserved_is_set, args.bytes_reserved),
      .peak_bytes_reserved = when(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved),
      .bytes_reservable_limit = when(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit),
      .largest_free_block = when(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes),
      .pool_bytes = when(args.pool_bytes_is_set, args.pool_bytes),
      .peak_pool_bytes = when(args.peak_pool_bytes_is_set, args.peak_pool_bytes),
  };
}

Counters Client::counters() const { return state_->counters(); }
int64_t Client::programs_made() const { return state_->programs_made(); }

}  // namespace megacpp::runtime::pjrt
