// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/compile_options.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace megacpp::runtime::pjrt {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

// device_ordinal (field 1) = -1, as every encoding starts.
const std::string kNoOrdinal = bytes({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01});

TEST(CompileOptionsTest, DefaultsAreOneReplicaOfOnePartition) {
  EXPECT_EQ(encode({}), bytes({0x1a, 20}) + kNoOrdinal + bytes({0x20, 1, 0x28, 1, 0x30, 0, 0x98, 0x01, 0}));
}

TEST(CompileOptionsTest, APartitionedProgramNamesItsDevices) {
  const CompileOptions options{.partitions = 2, .spmd_partitioning = true, .shardy = true, .device_ids = {3, 300}};
  const std::string assignment = bytes({0x08, 1, 0x10, 2,                // replicas, partitions
                                        0x1a, 3, 0x0a, 1, 3,             // partition 0
                                        0x1a, 4, 0x0a, 2, 0xac, 0x02});  // partition 1: device 300
  EXPECT_EQ(encode(options), bytes({0x1a, 37}) + kNoOrdinal + bytes({0x20, 1, 0x28, 2, 0x30, 1, 0x4a, 15}) +
                                 assignment + bytes({0x98, 0x01, 1}));
}

TEST(CompileOptionsTest, DevicesArePartitionsOfReplicas) {
  const CompileOptions options{.replicas = 2, .partitions = 2, .device_ids = {0, 1, 2, 3}};  // replica 1 is {2, 3}
  const std::string assignment = bytes({0x08, 2, 0x10, 2, 0x1a, 4, 0x0a, 2, 0, 2, 0x1a, 4, 0x0a, 2, 1, 3});
  EXPECT_NE(encode(options).find(bytes({0x4a, 16}) + assignment), std::string::npos);
}

TEST(CompileOptionsTest, MemoryAndEffort) {
  const CompileOptions options{.device_memory_bytes = 300, .optimization = Effort::o1, .memory_fitting = Effort::o0};
  EXPECT_EQ(encode(options),
            bytes({0x1a, 29}) + kNoOrdinal +
                bytes({0x20, 1, 0x28, 1, 0x30, 0, 0x78, 0xac, 0x02, 0x98, 0x01, 0, 0xc0, 0x01, 19, 0xc8, 0x01, 9}));
}

TEST(CompileOptionsTest, FlagsKeepTheirTypesAndComeInOrderOfName) {
  const CompileOptions options{.flags = {{"d", 1.0}, {"b", true}, {"c", int64_t{7}}, {"a", std::string("on")}}};
  const std::string plain = encode({});
  EXPECT_EQ(encode(options), plain + bytes({0x3a, 9, 0x0a, 1, 'a', 0x12, 4, 0x0a, 2, 'o', 'n'}) +
                                 bytes({0x3a, 7, 0x0a, 1, 'b', 0x12, 2, 0x10, 1}) +
                                 bytes({0x3a, 7, 0x0a, 1, 'c', 0x12, 2, 0x18, 7}) +
                                 bytes({0x3a, 14, 0x0a, 1, 'd', 0x12, 9, 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}));
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
