// SPDX-License-Identifier: Apache-2.0
// One GPU of this machine with its primary context, which all chips of the process on it share, and the toolbox of
// their kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/library.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

/// The only generation that device code is compiled for: sm_90a runs on no other.
inline constexpr int kCapability = 90;

int device_count(const Driver& driver);
DeviceProperties read_properties(const Driver& driver, int ordinal);
/// Whether device code of this program runs on it.
base::Decision is_served(const DeviceProperties& properties);

/// The UUIDs of all that this process sees, as DeviceProperties has them, in the driver's order. Wakes none.
std::vector<std::string> visible_gpus(const Driver& driver);

/// What nvidia-smi shows as free, for an instant: a context is made for the question and given back. Absent where the
/// GPU does not answer.
std::optional<int64_t> free_bytes_of(const Driver& driver, int ordinal);

class Gpu {
 public:
  struct Options {
    int ordinal = 0;
    LibrarySearch libraries = {};
    FindCubin find_cubin = {};
  };
  /// E1508 for a card of another generation; E3204 where the driver makes no context.
  Gpu(const Driver& driver, Options options);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Makes the context current on the calling thread. Everything below and every call of the driver needs that.
  void attach() const;
  int64_t free_bytes() const;
  /// Whether the machine lets its kernels read and write memory of the other.
  bool can_access_peer(const Gpu& other) const;
  /// From here on they may. Both are of one driver, and can_access_peer() says yes.
  void enable_peer_access(const Gpu& other) const;

  const Driver& driver() const { return driver_; }
  Context* context() const { return context_; }
  const DeviceProperties& properties() const { return properties_; }
  /// "GPU 5, NVIDIA H200": as this process counts those it sees.
  std::string text() const;
  Toolbox& toolbox() const { return *toolbox_; }

 private:
  const Driver& driver_;
  const int ordinal_;
  int device_ = 0;
  DeviceProperties properties_;
  Context* context_ = nullptr;
  std::unique_ptr<Toolbox> toolbox_;
};

}  // namespace megacpp::runtime::cuda
