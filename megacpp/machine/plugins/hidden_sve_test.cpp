// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/hidden_sve.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace megacpp::runtime::plugins {
namespace {

Processor processor(const std::string& cpuinfo) {
  std::istringstream text(cpuinfo);
  return Processor(text);
}

Processor arm(const std::string& features, const std::string& implementer, const std::string& part) {
  return processor("processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: " + features +
                   "\nCPU implementer\t: " + implementer +
                   "\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: " + part + "\nCPU revision\t: 1\n");
}

TEST(HiddenSveTest, ACoreThatHasItAndAKernelThatDoesNotSaySo) {
  EXPECT_TRUE(hides_sve(arm("fp asimd i8mm bf16 rng", "0x41", "0xd40")));  // Neoverse V1 in a virtual machine
  EXPECT_TRUE(hides_sve(arm("fp asimd", "0x46", "0x001")));
  EXPECT_TRUE(hides_sve(arm("fp asimd", "0x6d", "0xd49")));
}

TEST(HiddenSveTest, WhatIsOfferedOrNotThereIsNotHidden) {
  EXPECT_FALSE(hides_sve(arm("fp asimd sve i8mm", "0x41", "0xd40")));
  EXPECT_FALSE(hides_sve(arm("fp asimd", "0x41", "0xd0c")));  // Neoverse N1
  EXPECT_TRUE(hides_sve(arm("fp asimd svei8mm", "0x41", "0xd4f"))) << "a name that only begins like it";
}

TEST(HiddenSveTest, OtherMachinesHideNothing) {
  EXPECT_FALSE(hides_sve(processor("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu avx2\n")));
  EXPECT_FALSE(hides_sve(processor("")));
}

}  // namespace
}  // namespace megacpp::runtime::plugins
