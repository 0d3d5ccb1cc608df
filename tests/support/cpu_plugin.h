// SPDX-License-Identifier: Apache-2.0
// Clients, buffers and small programs on the CPU plugin, for tests of the XLA lane. A test that derives from
// CpuPluginTest is skipped, and says so, where the plugin's header was there at build time but its library is not, and
// under the thread sanitizer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/xla/pjrt/buffer.h"
#include "megacpp/machine/xla/pjrt/client.h"
#include "megacpp/machine/xla/pjrt/plugin.h"

namespace megacpp::testing_support {

class CpuPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the plugin's own locks are invisible to the thread sanitizer";
#endif
    if (!std::filesystem::exists(MEGACPP_PJRT_CPU_PLUGIN)) {
      GTEST_SKIP() << MEGACPP_PJRT_CPU_PLUGIN << " is not there: megacpp plugins fetch cpu";
    }
  }
};

inline const runtime::pjrt::Plugin& cpu_plugin() { return runtime::pjrt::Plugin::load(MEGACPP_PJRT_CPU_PLUGIN); }

inline runtime::pjrt::Client cpu_client(int64_t devices) {
  return runtime::pjrt::Client(cpu_plugin(), {.devices = devices, .options = {{"cpu_device_count", devices}}});
}

inline runtime::pjrt::Buffer upload(const runtime::pjrt::Client& client, size_t device, const ir::Shape& shape,
                                    const std::vector<float>& values) {
  return {client, device, {ir::DType::f32, shape}, std::as_bytes(std::span(values))};
}

inline std::vector<float> download(const runtime::pjrt::Buffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.type().elements()));
  buffer.to_host(std::as_writable_bytes(std::span(values)));
  return values;
}

/// x + y over f32[2,3]
inline constexpr const char* kAdd = R"(
module @add {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %sum = stablehlo.add %x, %y : tensor<2x3xf32>
    return %sum : tensor<2x3xf32>
  }
}
)";

}  // namespace megacpp::testing_support
