// SPDX-License-Identifier: Apache-2.0
#include "tests/device_transports/gpu_rig.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "megacpp/runtime/cuda/device_world.h"
#include "megacpp/runtime/cuda/virtual_chips.h"

namespace megacpp::testing_support {
namespace {

using runtime::cuda::Gpu;

// Obtaining and freeing pinned memory takes long, and stops the device. Never freed: the driver goes first.
class PinnedPool {
 public:
  std::byte* take(size_t bytes) {
    const std::lock_guard guard(mutex_);
    std::vector<std::byte*>& free = free_[bytes];
    if (!free.empty()) {
      std::byte* const data = free.back();
      free.pop_back();
      return data;
    }
    const Gpu& gpu = *gpu_here().gpu;
    gpu.attach();
    constexpr unsigned kPortable = 1, kMapped = 2;
    void* data = nullptr;
    gpu.driver().mem_host_alloc(&data, bytes, kPortable | kMapped);
    return static_cast<std::byte*>(data);
  }
  void give_back(std::byte* data, size_t bytes) {
    const std::lock_guard guard(mutex_);
    free_[bytes].push_back(data);
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;  // by size
};

std::unique_ptr<collectives::World> make_virtual_chips(const collectives::WorldOptions& options) {
  const Gpu& gpu = *gpu_here().gpu;
  gpu.attach();
  std::shared_ptr<collectives::World> control = collectives::inproc_transport().make(options);
  return runtime::cuda::make_device_world(
      {.control = std::move(control), .gpus = {gpu_here().gpu}, .wait_limit = options.wait_limit});
}

}  // namespace

Memory pinned_memory(size_t bytes) {
  static PinnedPool& pool = *new PinnedPool;
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 256));
  return Memory(pool.take(size), [size](std::byte* data) { pool.give_back(data, size); });
}

TransportRig virtual_chips_rig() {
  collectives::Transport transport = {.properties = runtime::cuda::virtual_chips_properties(),
                                      .doc = "virtual chips of one GPU",
                                      .workspace_bytes = [](const collectives::Call&, int64_t) { return int64_t{0}; },
                                      .make = make_virtual_chips};
  return {.transport = std::move(transport), .allocate = pinned_memory, .why_not = gpu_here().why_not};
}

}  // namespace megacpp::testing_support
