// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/processor.h"

#include <gtest/gtest.h>

#include <sstream>

namespace megacpp::runtime {
namespace {

TEST(ProcessorTest, FieldsAreThoseOfTheFirstCore) {
  std::istringstream two(
      "processor\t: 0\nmodel name\t: A: fast one\npower management:\n\nprocessor\t: 1\nmodel name\t: B\n");
  const Processor first(two);
  EXPECT_EQ(first.field("processor"), "0");
  EXPECT_EQ(first.field("model name"), "A: fast one");
  EXPECT_EQ(first.field("power management"), "");
  EXPECT_EQ(first.field("CPU part"), "");
}

TEST(ProcessorTest, ItsNameIsTheModelsOrThePartsNumbers) {
  std::istringstream x86("model name\t: EPYC 9654\n"), arm("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), none("");
  EXPECT_EQ(Processor(x86).name(), "EPYC 9654");
  EXPECT_EQ(Processor(arm).name(), "Arm implementer 0x41 part 0xd0c");
  EXPECT_EQ(Processor(none).name(), "");
}

TEST(ProcessorTest, NothingHasNoFields) {
  std::istringstream nothing(""), odd(": 1\nno colon\n");
  EXPECT_EQ(Processor(nothing).field("processor"), "");
  EXPECT_EQ(Processor(odd).field("no colon"), "");
}

}  // namespace
}  // namespace megacpp::runtime
