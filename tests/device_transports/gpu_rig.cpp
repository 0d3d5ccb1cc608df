// SPDX-License-Identifier: Apache-2.0
#include "tests/device_transports/gpu_rig.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/cuda/device_world.h"
#include "megacpp/machine/cuda/virtual_chips.h"

namespace megacpp::testing_support {
namespace {

using runtime::cuda::Gpu;
using runtime::cuda::Gpus;

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

std::shared_ptr<Gpu> open_gpu(int ordinal) {
  return std::make_shared<Gpu>(gpu_here().gpu->driver(),
                               Gpu::Options{.ordinal = ordinal, .find_cubin = runtime::cuda::embedded_cubin});
}

bool has_second_of_its_kind(const Gpu& first) {
  if (runtime::cuda::device_count(first.driver()) < 2) return false;
  return runtime::cuda::is_same_kind(first.properties(), runtime::cuda::read_properties(first.driver(), 1));
}

Gpus find_peers() {
  if (!gpu_here().gpu) return {};
  const bool is_second = has_second_of_its_kind(*gpu_here().gpu);
  Gpus gpus = {gpu_here().gpu, open_gpu(is_second ? 1 : 0)};
  if (is_second) runtime::cuda::connect_peers(gpus);
  return gpus;
}

std::unique_ptr<collectives::World> make_world(const Gpus& gpus, const collectives::WorldOptions& options) {
  gpus.front()->attach();
  return runtime::cuda::make_device_world(
      {.control = collectives::inproc_transport().make(options), .gpus = gpus, .wait_limit = options.wait_limit});
}

TransportRig rig_on(const Gpus& (*gpus)(), std::string doc) {
  collectives::Transport transport = {.properties = runtime::cuda::virtual_chips_properties(),
                                      .doc = std::move(doc),
                                      .workspace_bytes = [](const collectives::Call&, int64_t) { return int64_t{0}; },
                                      .make = [gpus](const auto& options) { return make_world(gpus(), options); }};
  return {.transport = std::move(transport), .allocate = pinned_memory, .why_not = gpu_here().why_not};
}

}  // namespace

Memory pinned_memory(size_t bytes) {
  static PinnedPool& pool = *new PinnedPool;
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 256));
  return Memory(pool.take(size), [size](std::byte* data) { pool.give_back(data, size); });
}

const Gpus& one_gpu() {
  static const Gpus& gpus = *new Gpus(gpu_here().gpu ? Gpus{gpu_here().gpu} : Gpus{});
  return gpus;
}

const Gpus& peer_gpus() {
  static const Gpus& gpus = *new Gpus(find_peers());
  return gpus;
}

TransportRig virtual_chips_rig() { return rig_on(one_gpu, "virtual chips of one GPU"); }

TransportRig peer_chips_rig() { return rig_on(peer_gpus, "chips spread over two GPUs"); }

}  // namespace megacpp::testing_support
