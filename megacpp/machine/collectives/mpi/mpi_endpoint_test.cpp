// SPDX-License-Identifier: Apache-2.0
// The endpoint over a table whose messages stay in this process: as MPI has it, a receive from any process takes the
// oldest message with its tag, and receives are served in the order they were started.
#include "megacpp/machine/collectives/mpi/mpi_endpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/processes/process_world.h"

namespace megacpp::collectives {
namespace {

struct FakeMessage {
  int from = 0;
  std::vector<std::byte> bytes;
};

struct FakeRequest {
  int process = 0;  // whose it is
  int tag = 0;
  void* buffer = nullptr;
  bool is_done = false;
  int from = 0;
  int bytes = 0;
};

using Address = std::pair<int, int>;  // process, tag

std::mutex fake_lock;
std::map<Address, std::deque<FakeMessage>> fake_messages;   // that no receive has taken
std::map<Address, std::deque<FakeRequest*>> fake_receives;  // that no message has come for
thread_local int fake_process = 0;                          // of the requests that this thread makes

void deliver_fake(const FakeMessage& message, FakeRequest& request) {
  std::memcpy(request.buffer, message.bytes.data(), message.bytes.size());
  request.from = message.from;
  request.bytes = static_cast<int>(message.bytes.size());
  request.is_done = true;
}

void* fake_make() { return new FakeRequest{.process = fake_process}; }

void fake_free(void* given) {
  const std::lock_guard lock(fake_lock);
  auto* const request = static_cast<FakeRequest*>(given);
  std::erase(fake_receives[{request->process, request->tag}], request);
  delete request;
}

int fake_bind(void* given, void* buffer, int, int tag) {
  auto* const request = static_cast<FakeRequest*>(given);
  request->buffer = buffer;
  request->tag = tag;
  return 0;
}

int fake_start(void* given) {
  const std::lock_guard lock(fake_lock);
  auto* const request = static_cast<FakeRequest*>(given);
  request->is_done = false;
  std::deque<FakeMessage>& messages = fake_messages[{request->process, request->tag}];
  if (messages.empty()) {
    fake_receives[{request->process, request->tag}].push_back(request);
  } else {
    deliver_fake(messages.front(), *request);
    messages.pop_front();
  }
  return 0;
}

int fake_send(void* given, const void* buffer, int bytes, int process, int tag) {
  if (process == 99) return 7;
  const std::lock_guard lock(fake_lock);
  auto* const request = static_cast<FakeRequest*>(given);
  const auto* const data = static_cast<const std::byte*>(buffer);
  FakeMessage message = {.from = request->process, .bytes = {data, data + bytes}};
  request->is_done = true;
  std::deque<FakeRequest*>& receives = fake_receives[{process, tag}];
  if (receives.empty()) {
    fake_messages[{process, tag}].push_back(std::move(message));
  } else {
    deliver_fake(message, *receives.front());
    receives.pop_front();
  }
  return 0;
}

int fake_test(void* given, int* is_done, int* process, int* bytes) {
  const std::lock_guard lock(fake_lock);
  const auto* const request = static_cast<const FakeRequest*>(given);
  *is_done = request->is_done ? 1 : 0;
  *process = request->from;
  *bytes = request->bytes;
  return 0;
}

void fake_error_text(int error, char* text, int) { text[0] = static_cast<char>('0' + error); }

const MegacppMpi kFakeMpi = {.version = kMpiTableVersion,
                             .start = nullptr,
                             .library = nullptr,
                             .make_request = fake_make,
                             .free_request = fake_free,
                             .bind_receive = fake_bind,
                             .start_receive = fake_start,
                             .send = fake_send,
                             .test = fake_test,
                             .error_text = fake_error_text,
                             .finish = nullptr};

std::unique_ptr<Endpoint> fake_endpoint(int process, int tag) {
  fake_process = process;
  return make_mpi_endpoint(kFakeMpi, {.process = process, .processes = 2, .host = "node" + std::to_string(process)},
                           tag);
}

class Collected final : public Endpoint::Receiver {
 public:
  void on_frame(int64_t process, std::span<const std::byte> frame) override {
    EXPECT_EQ(process, 0);
    frames.emplace_back(frame.begin(), frame.end());
  }
  void on_lost(int64_t, const std::string&) override { ADD_FAILURE() << "MPI tells of no losses"; }

  std::vector<std::vector<std::byte>> frames;
};

TEST(MpiEndpointTest, FramesArriveWholeAndInOrder) {
  const std::unique_ptr<Endpoint> from = fake_endpoint(0, 1), to = fake_endpoint(1, 1);
  EXPECT_EQ(from->host(), "node0");
  Collected collected;
  for (size_t i = 0; i < 100; ++i) {
    const std::span<std::byte> room = from->room(1);
    ASSERT_EQ(room.size(), kFrameBytes);
    std::memset(room.data(), static_cast<int>(i), i + 1);
    from->send(1, i + 1);
    if (i % 30 == 0) to->poll(collected);
  }
  EXPECT_TRUE(from->is_flushed());
  while (collected.frames.size() < 100) to->poll(collected);
  for (size_t i = 0; i < 100; ++i)
    EXPECT_EQ(collected.frames[i], std::vector<std::byte>(i + 1, static_cast<std::byte>(i)));
}

// As the thread of a world does. How often it asked.
int64_t asks_until(Endpoint& endpoint, Collected& collected, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int64_t asks = 1;
  for (; !endpoint.poll(collected) && std::chrono::steady_clock::now() < end; ++asks) endpoint.wait(limit);
  return asks;
}

// Many processes with several endpoints each share a machine's cores.
TEST(MpiEndpointTest, WhileNothingComesMpiIsAskedRarely) {
  const std::unique_ptr<Endpoint> endpoint = fake_endpoint(1, 4);
  Collected collected;
  asks_until(*endpoint, collected, std::chrono::milliseconds(40));
  EXPECT_LE(asks_until(*endpoint, collected, std::chrono::milliseconds(40)), 12);
}

TEST(MpiEndpointTest, AMessageEndsALongWaitSoon) {
  const std::unique_ptr<Endpoint> from = fake_endpoint(0, 5), to = fake_endpoint(1, 5);
  Collected collected;
  asks_until(*to, collected, std::chrono::milliseconds(40));
  ASSERT_FALSE(from->room(1).empty());
  from->send(1, 8);
  asks_until(*to, collected, std::chrono::minutes(1));
  EXPECT_EQ(collected.frames.size(), 1u);
}

TEST(MpiEndpointTest, WhatMpiRefusesIsAnErrorWithItsWords) {
  const std::unique_ptr<Endpoint> endpoint = fake_endpoint(0, 2);
  ASSERT_FALSE(endpoint->room(1).empty());
  try {
    endpoint->send(99, 8);
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E3104);
    EXPECT_EQ(error.problem().got, "7");
  }
}

TEST(MpiEndpointTest, TwoProcessesSumOverIt) {
  std::vector<std::thread> threads;
  for (const int process : {0, 1})
    threads.emplace_back([process] {
      const ProcessWorld::Options options{
          .properties = {.name = "fake"}, .owners = {0, 1}, .wait_limit = std::chrono::minutes(1)};
      ProcessWorld world(options, fake_endpoint(process, 3));
      EXPECT_EQ(world.hosts(), (std::vector<std::string>{"node0", "node1"}));
      Communicator& chip = world.communicator(process);
      std::vector<float> data(100000, static_cast<float>(process + 1)), workspace(200000);
      const Call sum = {.kind = Kind::all_reduce,
                        .group = &chip.create_group({0, 1}),
                        .parts = {{.in = data.data(), .out = data.data(), .shape = {100000}}},
                        .workspace = workspace.data(),
                        .where = "sum"};
      chip.run(sum, kHostThread);
      EXPECT_EQ(data, std::vector<float>(100000, 3.0f));
      world.agree_any("done", false);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace megacpp::collectives
