// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/nvidia_devices.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::runtime::plugins {
namespace {

// As the driver writes it.
constexpr const char* kInformation =
    "Model: \t\t NVIDIA H200\n"
    "IRQ:   \t\t 11\n"
    "GPU UUID: \t GPU-00000000-0000-0000-0000-000000000000\n"
    "Video BIOS: \t 96.00.bc.00.01\n"
    "Bus Type: \t PCIe\n"
    "Device Minor: \t 0\n"
    "GPU Excluded:\t No\n";

class NvidiaDevicesTest : public testing::Test {
 protected:
  void add(const std::string& bus, const std::string& information) {
    base::make_folder(folder_ / bus);
    base::write_file_atomically(folder_ / bus / "information", information);
  }
  std::string name() const { return nvidia_device_name(folder_.path()); }

  testing_support::TemporaryFolder folder_;
};

TEST_F(NvidiaDevicesTest, TheModelIsTheRestOfItsLine) {
  EXPECT_EQ(model_of_device(kInformation), "NVIDIA H200");
  EXPECT_EQ(model_of_device("Model:NVIDIA A100-SXM4-80GB"), "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(model_of_device("IRQ: 11\r\nModel:  NVIDIA B200 \t\r\n"), "NVIDIA B200");
  for (const char* none :
       {"", "\n", "Model:", "Model: \t\nIRQ: 11\n", "GPU Model: NVIDIA H200\n", "model: NVIDIA H200"})
    EXPECT_EQ(model_of_device(none), "") << none;
}

TEST_F(NvidiaDevicesTest, DevicesOfOneKindHaveOneName) {
  EXPECT_EQ(name(), "");
  for (const char* bus : {"0000:00:06.0", "0000:00:07.0"}) add(bus, kInformation);
  EXPECT_EQ(name(), "NVIDIA H200");
}

TEST_F(NvidiaDevicesTest, SeveralKindsAreAllNamed) {
  add("0000:00:06.0", kInformation);
  add("0000:00:05.0", "Model: \t\t NVIDIA T400 4GB\n");
  EXPECT_EQ(name(), "NVIDIA H200, NVIDIA T400 4GB");
  add("0000:00:07.0", "IRQ: 11\n");
  EXPECT_EQ(name(), "NVIDIA H200, NVIDIA T400 4GB, unnamed");
}

TEST_F(NvidiaDevicesTest, WhatCannotBeReadSaysNothing) {
  EXPECT_EQ(nvidia_device_name(folder_ / "not-there"), "");
  base::write_file_atomically(folder_ / "file", "Model: NVIDIA H200\n");
  EXPECT_EQ(nvidia_device_name(folder_ / "file"), "");
  EXPECT_EQ(name(), "") << "no folder of a device";
  base::make_folder(folder_ / "0000:00:06.0");
  EXPECT_EQ(name(), "");
  base::make_folder(folder_.path() / "0000:00:06.0" / "information");
  EXPECT_EQ(name(), "") << "no file";
}

}  // namespace
}  // namespace megacpp::runtime::plugins
