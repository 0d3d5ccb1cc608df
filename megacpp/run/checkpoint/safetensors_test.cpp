// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/error.h"

namespace megacpp::checkpoint {
namespace {

std::filesystem::path scratch() {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return std::filesystem::path(::testing::TempDir()) / ("megacpp_" + name + ".safetensors");
}

template <typename T>
StoredTensor view(std::string name, StoredType type, ir::Shape shape, const std::vector<T>& values) {
  return {.name = std::move(name), .type = type, .shape = std::move(shape), .bytes = std::as_bytes(std::span(values))};
}

/// Writes a file with this header text and `data_bytes` zero bytes, and says how reading it fails.
base::Error error_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string content(reinterpret_cast<const char*>(&length), 8);
  content += header + std::string(data_bytes, '\0');
  base::write_file_atomically(scratch(), content);
  try {
    SafetensorsFile{scratch()};
  } catch (const base::Error& error) {
    return error;
  }
  return {base::Code::E9001, {.where = "accepted"}};
}

TEST(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const std::vector<float> floats = {1.5f, -2.0f, 3.25f};
  const std::vector<uint16_t> brains = {0x3F80, 0xC000};
  const std::vector<uint16_t> halves = {0x3C00, 0x7BFF, 0x0001, 0xFC00};
  const std::vector<int64_t> longs = {1, -7};
  const std::vector<int32_t> ints = {42};
  const std::vector<StoredTensor> tensors = {
      view("b", ir::DType::bf16, {2}, brains), view("f", ir::DType::f32, {3, 1}, floats),
      view("h", StoredType::f16(), {2, 2}, halves), view("l", StoredType::i64(), {2}, longs),
      view("i", ir::DType::i32, {}, ints)};
  write_safetensors(scratch(), tensors, {{"meta", "{\"limit\": Infinity}"}});
  const SafetensorsFile file(scratch());
  EXPECT_EQ(file.metadata().at("meta"), "{\"limit\": Infinity}");
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(to_floats(file.at("f")), floats);
  EXPECT_EQ(file.at("f").shape, (ir::Shape{3, 1}));
  EXPECT_EQ(to_floats(file.at("b")), (std::vector<float>{1, -2}));
  EXPECT_EQ(to_floats(file.at("h")), (std::vector<float>{1, 65504, std::ldexp(1.0f, -24), -HUGE_VALF}));
  EXPECT_EQ(to_ints(file.at("l")), (std::vector<int32_t>{1, -7}));
  EXPECT_EQ(to_ints(file.at("i")), ints);
}

TEST(SafetensorsTest, AnEmptyFileOfTensorsIsLegal) {
  write_safetensors(scratch(), {}, {});
  EXPECT_TRUE(SafetensorsFile(scratch()).tensors().empty());
}

TEST(SafetensorsTest, DamagedHeadersAreRefused) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(error_of(good, 8).problem().where, "accepted");
  struct Case {
    std::string header;
    size_t data;
  };
  const std::vector<Case> cases = {
      {good, 7},
      {good, 9},
      {"", 0},
      {"[]", 0},
      {"{", 0},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0},
      {R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8},
      {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8},
      {R"({"a":3})", 0},
      {R"({"__metadata__":{"k":1}})", 0},
      {R"({"__metadata__":[]})", 0},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
          "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
          "b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12},
  };
  for (const Case& c : cases)
    EXPECT_EQ(error_of(c.header, c.data).code(), base::Code::E1201) << c.header << " " << c.data;
}

TEST(SafetensorsTest, AHeaderLongerThanTheFileIsRefused) {
  base::write_file_atomically(scratch(), std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THROW(SafetensorsFile{scratch()}, base::Error);
  base::write_file_atomically(scratch(), "abc");
  EXPECT_THROW(SafetensorsFile{scratch()}, base::Error);
}

TEST(SafetensorsTest, WrongKindsAndNamesAreRefused) {
  const std::vector<int64_t> longs = {int64_t{1} << 40};
  write_safetensors(scratch(), std::vector{view("l", StoredType::i64(), {1}, longs)}, {});
  const SafetensorsFile file(scratch());
  EXPECT_TRUE(file.contains("l"));
  EXPECT_THROW(to_floats(file.at("l")), base::Error);
  EXPECT_THROW(to_ints(file.at("l")), base::Error);
  EXPECT_THROW(file.at("none"), base::Error);
}

}  // namespace
}  // namespace megacpp::checkpoint
