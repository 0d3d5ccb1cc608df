// SPDX-License-Identifier: Apache-2.0
// The first GPU of this machine for tests, or why there is none.
#pragma once

#include <memory>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/embedded_cubins.h"
#include "megacpp/machine/cuda/gpu.h"

namespace megacpp::testing_support {

struct FoundGpu {
  std::shared_ptr<runtime::cuda::Gpu> gpu = {};
  std::string why_not = {};  // where there is none
};

inline FoundGpu find_gpu() {
  using namespace runtime::cuda;
  if (!missing_cubins().empty()) return {.why_not = "this build has no device code: it was made without nvcc"};
  try {
    const auto place = driver_place({});
    const Driver& driver = open_driver(place);
    return {.gpu = std::make_shared<Gpu>(driver, Gpu::Options{.find_cubin = embedded_cubin})};
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1508) throw;
    return {.why_not = error.what()};
  }
}

/// Opened once for the whole program, and never closed: the driver's own end may come first.
inline const FoundGpu& gpu_here() {
  static const FoundGpu& found = *new FoundGpu(find_gpu());
  return found;
}

}  // namespace megacpp::testing_support
