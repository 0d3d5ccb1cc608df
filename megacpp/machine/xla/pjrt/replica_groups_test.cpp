// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/replica_groups.h"

#include <gtest/gtest.h>

#include "megacpp/machine/xla/pjrt/protobuf_reader.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::problem_of;

// Messages of small numbers: every tag, length and value is one byte.
std::string integer(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }
std::string message(int field, const std::string& bytes) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string packed(int field, std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return message(field, bytes);
}

TEST(ReplicaGroupsTest, GroupsAreReadAsTheyStand) {
  EXPECT_EQ(read_replica_group(packed(1, {0, 3, 5})), (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(read_replica_group(integer(1, 4) + integer(1, 2)), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(read_collective_device_list(message(1, packed(1, {0, 1})) + message(1, packed(1, {2, 3}))),
            (ReplicaGroups{{0, 1}, {2, 3}}));
}

TEST(ReplicaGroupsTest, AnIotaIsSpelledOut) {
  const std::string rows = integer(1, 2) + integer(2, 4) + packed(3, {8});  // [2,4]<=[8]
  EXPECT_EQ(read_iota_groups(rows), (ReplicaGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(read_collective_device_list(message(2, rows)), read_iota_groups(rows));
  const std::string columns = integer(1, 4) + integer(2, 2) + packed(3, {2, 4}) + packed(4, {1, 0});
  EXPECT_EQ(read_iota_groups(columns), (ReplicaGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  // [2,4]<=[2,2,2]T(1,0,2)
  const std::string middle = integer(1, 2) + integer(2, 4) + packed(3, {2, 2, 2}) + packed(4, {1, 0, 2});
  EXPECT_EQ(read_iota_groups(middle), (ReplicaGroups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(ReplicaGroupsTest, ThousandsOfDimensionsOfOneCostNothing) {
  const std::string chips = "\x80\x80\x08";  // 2^17 as a varint
  const std::string ones(20'000, '\x01');
  const std::string sizes = chips + ones;
  const std::string bytes = "\x08" + chips + integer(2, 1) + "\x1a" + "\xa3\x9c\x01" + sizes;
  ASSERT_EQ(sizes.size(), 0x23u + (0x1cu << 7) + (1u << 14));
  EXPECT_EQ(read_iota_groups(bytes).size(), size_t{1} << 17);
}

std::string axis(int size) { return message(1, message(1, "a") + integer(2, size)); }

TEST(ReplicaGroupsTest, AxesOfAMeshAreSpelledOut) {
  const std::string mesh = message(1, axis(2) + axis(4));
  EXPECT_EQ(read_mesh_axes_groups(mesh + message(2, integer(1, 1))), (ReplicaGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(read_mesh_axes_groups(mesh + message(2, "")), (ReplicaGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(read_mesh_axes_groups(mesh + message(2, integer(1, 1)) + message(2, "")),
            (ReplicaGroups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  // The second half of the second axis, seen as [2, 2], and its first half.
  const std::string minor = message(2, integer(1, 1) + message(2, integer(1, 2) + integer(2, 2)));
  EXPECT_EQ(read_mesh_axes_groups(mesh + minor), (ReplicaGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  const std::string major = message(2, integer(1, 1) + message(2, integer(1, 1) + integer(2, 2)));
  EXPECT_EQ(read_mesh_axes_groups(mesh + major), (ReplicaGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  const std::string turned = message(1, axis(2) + axis(2) + packed(2, {3, 2, 1, 0}));
  EXPECT_EQ(read_mesh_axes_groups(turned + message(2, integer(1, 1))), (ReplicaGroups{{3, 2}, {1, 0}}));
}

TEST(ReplicaGroupsTest, WhatDoesNotFitIsRefused) {
  const std::vector<std::string> iotas = {
      integer(1, 2) + integer(2, 4),                                          // of no chips
      integer(1, 2) + integer(2, 4) + packed(3, {6}),                         // other chips
      integer(1, 2) + integer(2, 4) + packed(3, {2, 4}) + packed(4, {0, 0}),  // no permutation
      integer(1, 2) + integer(2, 4) + packed(3, {2, 4}) + packed(4, {0}),     // too short
      integer(1, 0) + integer(2, 4) + packed(3, {0}),                         // none
      integer(1, 2) + std::string("\x10\xff\xff\xff\xff\xff\x7f", 7),         // more than there are
      std::string("\x0a", 1),                                                 // cut short
      std::string("\x0b\x00", 2),                                             // a group, which protobuf gave up
  };
  for (const std::string& bytes : iotas) problem_of(Code::E3201, [&] { read_iota_groups(bytes); });
  const std::string mesh = message(1, axis(2) + axis(4));
  const std::string part = message(2, integer(1, 1) + message(2, integer(1, 1) + integer(2, 3)));
  problem_of(Code::E3201, [&] { read_mesh_axes_groups(mesh + part); });
  problem_of(Code::E3201, [&] { read_mesh_axes_groups(mesh + message(2, integer(1, 2))); });
  problem_of(Code::E3201, [&] { read_mesh_axes_groups(message(1, axis(2) + packed(2, {0, 1, 2}))); });
  // Parts behind 2^63 - 1 others: their product with the part's size would wrap.
  const std::string largest = "\x08" + std::string(8, '\xff') + "\x7f";
  problem_of(Code::E3201,
             [&] { read_mesh_axes_groups(mesh + message(2, integer(1, 1) + message(2, largest + integer(2, 2)))); });
}

TEST(ProtobufReaderTest, FieldsOfOtherTypesAreNamed) {
  const std::string bytes = integer(2, 5);
  ProtobufReader reader(bytes, "Message");
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(), 2);
  EXPECT_EQ(reader.integer(), 5);
  const base::Problem problem = problem_of(Code::E3201, [&] { (void)reader.bytes(); });
  EXPECT_NE(problem.where.find("Message"), std::string::npos);
  EXPECT_NE(problem.got.find("field 2"), std::string::npos);
  EXPECT_FALSE(reader.next());
}

TEST(ProtobufReaderTest, DamageIsNamedWithItsMessage) {
  const auto damage = [](const std::string& bytes) {
    const base::Problem problem = problem_of(Code::E3201, [&] {
      ProtobufReader reader(bytes, "Message");
      std::vector<int64_t> values;
      while (reader.next())
        if (reader.field() == 1) reader.append_integers(values);
    });
    EXPECT_EQ(problem.where, "the compiled program, Message");
    return problem.got;
  };
  EXPECT_EQ(damage("\x08"), "it ends too early, in or after field 1");
  EXPECT_EQ(damage(integer(1, 5) + "\x12\x05"
                                   "ab"),
            "it ends too early, in or after field 2");
  EXPECT_EQ(damage("\x80"), "it ends too early, in its first field");
  EXPECT_EQ(damage("\x10" + std::string(10, '\xff') + "\x01"), "a number of more than 64 bits, in or after field 2");
  EXPECT_EQ(damage(std::string("\x0b\x00", 2)), "a field of an unknown wire type, in its first field");
  EXPECT_EQ(damage(std::string(1, '\0')), "a field number that none has, in its first field");
  EXPECT_EQ(damage("\x0a\x01\x80"), "it ends too early, in the list of field 1");
  EXPECT_EQ(damage("\x0d"
                   "abcd"),
            "field 1 is neither text nor a message");  // four bytes
  EXPECT_EQ(damage("\x0d"
                   "abc"),
            "it ends too early, in or after field 1");
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
