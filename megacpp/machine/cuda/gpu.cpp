// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

// As the driver has them.
constexpr int kMultiprocessors = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76, kSharedPerBlock = 97;

int attribute_of(const Driver& driver, int device, int attribute) {
  int value = 0;
  driver.device_get_attribute(&value, attribute, device);
  return value;
}

std::string uuid_of(const Driver& driver, int device) {
  std::array<unsigned char, 16> uuid = {};
  driver.device_get_uuid(uuid.data(), device);
  std::string text;
  for (const unsigned char byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

int device_count(const Driver& driver) {
  int count = 0;
  driver.device_get_count(&count);
  return count;
}

DeviceProperties read_properties(const Driver& driver, int ordinal) {
  int device = 0;
  driver.device_get(&device, ordinal);
  std::array<char, 256> name = {};
  driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device);
  size_t memory = 0;
  driver.device_total_mem(&memory, device);
  DeviceProperties properties;
  properties.name = name.data();
  properties.uuid = uuid_of(driver, device);
  properties.capability = attribute_of(driver, device, kMajor) * 10 + attribute_of(driver, device, kMinor);
  properties.multiprocessors = attribute_of(driver, device, kMultiprocessors);
  properties.shared_bytes_per_block = attribute_of(driver, device, kSharedPerBlock);
  properties.l2_bytes = attribute_of(driver, device, kL2Bytes);
  properties.memory_bytes = static_cast<int64_t>(memory);
  return properties;
}

base::Decision is_served(const DeviceProperties& properties) {
  if (properties.capability == kCapability) return base::Decision::yes();
  return base::Decision::no(fmt::format("{} is of compute capability {}.{}, and the kernels are compiled for {}.{}",
                                        properties.name, properties.capability / 10, properties.capability % 10,
                                        kCapability / 10, kCapability % 10));
}

std::vector<std::string> visible_gpus(const Driver& driver) {
  std::vector<std::string> uuids;
  for (int ordinal = 0; ordinal < device_count(driver); ++ordinal) {
    int device = 0;
    driver.device_get(&device, ordinal);
    uuids.push_back(uuid_of(driver, device));
  }
  return uuids;
}

std::optional<int64_t> free_bytes_of(const Driver& driver, int ordinal) {
  int device = 0;
  Context* context = nullptr;
  if (driver.device_get.attempt(&device, ordinal) != kSuccess) return std::nullopt;
  if (driver.primary_ctx_retain.attempt(&context, device) != kSuccess) return std::nullopt;
  size_t free = 0, total = 0;
  Result result = driver.ctx_set_current.attempt(context);
  if (result == kSuccess) result = driver.mem_get_info.attempt(&free, &total);
  driver.ctx_set_current.attempt(nullptr);
  // Making a context takes tenths of a second. Where there is one GPU, what asks this runs there next: it stays.
  if (result != kSuccess || device_count(driver) > 1) driver.primary_ctx_release.attempt(device);
  return result == kSuccess ? std::optional(static_cast<int64_t>(free)) : std::nullopt;
}

Gpu::Gpu(const Driver& driver, Options options)
    : driver_(driver), ordinal_(options.ordinal), properties_(read_properties(driver, options.ordinal)) {
  const base::Decision served = is_served(properties_);
  MEGACPP_REQUIRE(served, E1508,
                  {.where = fmt::format("GPU {}", options.ordinal),
                   .got = served.reason(),
                   .wanted = "a GPU of the Hopper generation: H100, H200, GH200",
                   .next = "--backend xla runs on other NVIDIA GPUs"});
  driver_.device_get(&device_, options.ordinal);
  driver_.primary_ctx_retain(&context_, device_);
  try {
    attach();
    toolbox_ = std::make_unique<Toolbox>(driver_, Toolbox::Options{.properties = properties_,
                                                                   .libraries = std::move(options.libraries),
                                                                   .find_cubin = std::move(options.find_cubin)});
  } catch (...) {
    driver_.primary_ctx_release.attempt(device_);
    throw;
  }
}

Gpu::~Gpu() {
  driver_.ctx_set_current.attempt(context_);
  toolbox_.reset();
  driver_.ctx_set_current.attempt(nullptr);
  driver_.primary_ctx_release.attempt(device_);
}

std::string Gpu::text() const { return fmt::format("GPU {}, {}", ordinal_, properties_.name); }

void Gpu::attach() const { driver_.ctx_set_current(context_); }

bool Gpu::can_access_peer(const Gpu& other) const {
  int can = 0;
  driver_.device_can_access_peer(&can, device_, other.device_);
  return can != 0;
}

// Primary contexts live on between runs of a process where something else holds them, and with them their access.
void Gpu::enable_peer_access(const Gpu& other) const {
  attach();
  const Result result = driver_.ctx_enable_peer_access.attempt(other.context_, 0);
  if (result != kSuccess && result != kPeerAccessEnabled) raise_failed_call("cuCtxEnablePeerAccess", result);
}

int64_t Gpu::free_bytes() const {
  size_t free = 0, total = 0;
  driver_.mem_get_info(&free, &total);
  return static_cast<int64_t>(free);
}

}  // namespace megacpp::runtime::cuda
