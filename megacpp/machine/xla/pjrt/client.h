// SPDX-License-Identifier: Apache-2.0
// A client: the devices of a plugin, open for use. Programs and buffers made with it keep it alive, so they may be
// dropped in any order; the devices are let go with the last of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/key_values.h"
#include "megacpp/machine/runtime/counters.h"
#include "megacpp/machine/xla/pjrt/device_description.h"
#include "megacpp/machine/xla/pjrt/named_value.h"
#include "megacpp/machine/xla/pjrt/plugin.h"

namespace megacpp::runtime::pjrt {

struct ClientState;

struct ClientRequest {
  int64_t devices = 1;                   // at least so many, or E1504
  std::vector<NamedValue> options = {};  // as the plugin takes them: {"cpu_device_count", 8}
  /// Where it finds the clients of other processes; none: it is alone.
  std::shared_ptr<collectives::KeyValues> store = {};
};

/// What a device's allocator says. Plugins leave out what they do not know.
struct DeviceMemory {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> largest_allocation;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> peak_bytes_reserved;
  std::optional<int64_t> bytes_reservable_limit;
  std::optional<int64_t> largest_free_block;
  std::optional<int64_t> pool_bytes;
  std::optional<int64_t> peak_pool_bytes;
};

class Client {
 public:
  explicit Client(const Plugin& plugin, const ClientRequest& request = {});

  const Plugin& plugin() const;
  std::string platform_name() const;     // "cpu", "cuda", "tpu"
  std::string platform_version() const;  // the plugin's own words
  /// The devices this process can use, in the plugin's order. "Device d" elsewhere is an index into this list.
  const std::vector<DeviceDescription>& devices() const { return devices_; }
  /// Those of all processes that the plugin has joined to one client, in its order.
  std::vector<DeviceDescription> all_devices() const;
  /// The number that the plugin gives this process; devices name theirs by it.
  int process_index() const;
  /// Nothing where the plugin keeps no statistics.
  std::optional<DeviceMemory> memory(size_t device) const;

  Counters counters() const;
  int64_t programs_made() const;  // as counters() has it, without a copy of them

  const std::shared_ptr<ClientState>& state() const { return state_; }

 private:
  std::shared_ptr<ClientState> state_;  // shared by everything made with this client
  std::vector<DeviceDescription> devices_;
};

}  // namespace megacpp::runtime::pjrt
