// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/buffer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using testing_support::cpu_client;

class BufferTest : public testing_support::CpuPluginTest {};

TEST_F(BufferTest, EveryElementTypeComesBackAsItWent) {
  const Client client = cpu_client(2);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::bf16, ir::DType::i32, ir::DType::pred}) {
    for (const ir::Shape& shape : {ir::Shape{}, ir::Shape{5}, ir::Shape{2, 3}, ir::Shape{2, 1, 3, 4}}) {
      const ir::TensorType type{dtype, shape};
      std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(dtype == ir::DType::pred ? i % 2 : i % 64 + 1);
      }
      const Buffer buffer(client, 1, type, bytes);
      EXPECT_EQ(buffer.type(), type);
      EXPECT_GE(buffer.bytes_on_device(), type.bytes());
      EXPECT_FALSE(buffer.is_deleted());
      buffer.await();
      std::vector<std::byte> back(bytes.size());
      buffer.to_host(back);
      EXPECT_EQ(back, bytes) << ir::to_string(type);
    }
  }
}

TEST_F(BufferTest, TransfersAreCounted) {
  const Client client = cpu_client(1);
  const Buffer buffer = testing_support::upload(client, 0, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(client.counters().host_to_device.count, 1);
  EXPECT_EQ(client.counters().host_to_device.bytes, 24);
  EXPECT_EQ(client.counters().host_syncs, 0);
  testing_support::download(buffer);
  EXPECT_EQ(client.counters().device_to_host.count, 1);
  EXPECT_EQ(client.counters().device_to_host.bytes, 24);
  EXPECT_EQ(client.counters().host_syncs, 1);
}

TEST_F(BufferTest, HostBytesAreFreeOnceItIsMade) {
  const Client client = cpu_client(1);
  std::vector<float> values(1 << 20);  // large enough that a plugin would rather copy in the background
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<float> expected = values;
  const Buffer buffer = testing_support::upload(client, 0, {1 << 20}, values);
  std::fill(values.begin(), values.end(), -1.0f);
  EXPECT_EQ(testing_support::download(buffer), expected);
}

TEST_F(BufferTest, OutlivesItsClient) {
  std::optional<Buffer> buffer;
  {
    const Client client = cpu_client(2);
    buffer.emplace(testing_support::upload(client, 1, {2}, {1, 2}));
  }
  EXPECT_EQ(testing_support::download(*buffer), (std::vector<float>{1, 2}));
}

TEST_F(BufferTest, CanTakeThePlaceOfABufferOfAnotherClient) {
  std::optional<Client> client(cpu_client(1));
  Buffer buffer = testing_support::upload(*client, 0, {2}, {1, 2});
  client.emplace(cpu_client(1));
  buffer = testing_support::upload(*client, 0, {2}, {3, 4});  // the first client ends here
  client.reset();
  EXPECT_EQ(testing_support::download(buffer), (std::vector<float>{3, 4}));
}

TEST_F(BufferTest, BytesOfAnotherSizeAreRefused) {
  const Client client = cpu_client(1);
  const Buffer buffer = testing_support::upload(client, 0, {2}, {1, 2});
  std::vector<std::byte> few(4);
  testing_support::problem_of(base::Code::E9001, [&] { buffer.to_host(few); });
  testing_support::problem_of(base::Code::E9001, [&] { Buffer(client, 0, {ir::DType::f32, {2}}, few); });
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
