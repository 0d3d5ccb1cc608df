// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/peer_gpus.h"

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

void require_alike(const DeviceProperties& one, const DeviceProperties& two) {
  MEGACPP_REQUIRE(is_same_kind(one, two), E1505,
                  ({.where = "the GPUs of this process",
                    .got = fmt::format("{} of {} multiprocessors and {} of {}", one.name, one.multiprocessors, two.name,
                                       two.multiprocessors),
                    .wanted = "GPUs of one kind: products are computed by the same algorithms on all of them",
                    .next = "choose those of one kind with CUDA_VISIBLE_DEVICES"}));
}

void require_peer_access(const Gpu& gpu, const Gpu& other) {
  MEGACPP_REQUIRE(
      gpu.can_access_peer(other), E1505,
      ({.where = "the GPUs of this process",
        .got = fmt::format("{} cannot access memory of {}", gpu.text(), other.text()),
        .wanted = "peer access between all of them: NVLink, or one PCIe root without an IOMMU between",
        .next = "start a process for each chip (mpirun, docs/hosts.md), which exchange through NCCL, or "
                "choose one GPU for all chips with CUDA_VISIBLE_DEVICES; nvidia-smi topo -p2p r shows which "
                "pairs have it"}));
}

template <typename Use>
void for_each_pair(const Gpus& gpus, const Use& use) {
  for (const std::shared_ptr<Gpu>& gpu : gpus)
    for (const std::shared_ptr<Gpu>& other : gpus)
      if (gpu != other) use(*gpu, *other);
}

}  // namespace

size_t gpu_of_chip(int64_t chip, int64_t chips, size_t gpus) {
  MEGACPP_CHECK(chip >= 0 && chip < chips && gpus > 0) << "chip " << chip << " of " << chips << " on " << gpus;
  return static_cast<size_t>(chip) * gpus / static_cast<size_t>(chips);
}

bool is_same_kind(const DeviceProperties& one, const DeviceProperties& two) {
  return one.name == two.name && one.capability == two.capability && one.multiprocessors == two.multiprocessors;
}

void require_same_kind(const std::vector<DeviceProperties>& gpus) {
  for (const DeviceProperties& gpu : gpus) require_alike(gpus.front(), gpu);
}

void connect_peers(const Gpus& gpus) {
  for_each_pair(gpus, require_peer_access);
  for_each_pair(gpus, [](const Gpu& gpu, const Gpu& other) { gpu.enable_peer_access(other); });
}

}  // namespace megacpp::runtime::cuda
