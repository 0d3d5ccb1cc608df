// SPDX-License-Identifier: Apache-2.0
#include "megacpp/http/request_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>

namespace megacpp::http {
namespace {

using namespace std::chrono_literals;

/// A server's and a client's end.
class RequestSocketTest : public testing::Test {
 protected:
  RequestSocketTest() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~RequestSocketTest() override {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }

  RequestSocket::Limits limits() const {
    return {.is_stopping = is_stopping_, .head_time = 100ms, .write_time = 50ms, .head_bytes = 10};
  }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(ends_[1], text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  void leave() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }

  std::atomic<bool> is_stopping_ = false;
  int ends_[2] = {-1, -1};
};

TEST_F(RequestSocketTest, ReadsUpToItsLimit) {
  RequestSocket socket(ends_[0], limits());
  send("0123456789abc");
  std::string read(20, '.');
  ASSERT_EQ(socket.read(read.data(), 4), 4);
  EXPECT_TRUE(socket.is_readable());
  ASSERT_EQ(socket.read(read.data() + 4, 16), 6);
  EXPECT_EQ(read.substr(0, 10), "0123456789");
  EXPECT_LT(socket.read(read.data(), 4), 0) << "three bytes too many";
}

TEST_F(RequestSocketTest, ReadsForALimitedTime) {
  const auto start = std::chrono::steady_clock::now();
  RequestSocket socket(ends_[0], limits());
  char byte = 0;
  for (int i = 0; i < 4; ++i) {
    send("a");
    if (socket.read(&byte, 1) <= 0) break;
  }
  EXPECT_LT(socket.read(&byte, 1), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(RequestSocketTest, AClientThatLeftIsSeen) {
  RequestSocket socket(ends_[0], limits());
  EXPECT_TRUE(socket.is_writable());
  leave();
  EXPECT_FALSE(socket.is_writable());
  char byte = 0;
  EXPECT_EQ(socket.read(&byte, 1), 0);
  EXPECT_LT(socket.write("x", 1), 0) << "and no signal ends the process";
}

TEST_F(RequestSocketTest, AClientThatTakesNothingIsLeft) {
  RequestSocket socket(ends_[0], limits());
  const std::string text(1 << 16, 'x');
  int written = 0;
  while (written < 10'000 && socket.write(text.data(), text.size()) > 0) ++written;
  EXPECT_LT(written, 10'000);
}

TEST_F(RequestSocketTest, NothingIsReadOnceTheServerStops) {
  RequestSocket socket(ends_[0], limits());
  is_stopping_ = true;
  send("a");
  char byte = 0;
  EXPECT_LT(socket.read(&byte, 1), 0);
}

TEST_F(RequestSocketTest, ClosingLeavesTheAnswerReadable) {
  send("a rest that nobody reads");
  ASSERT_EQ(::send(ends_[0], "answer", 6, 0), 6);
  close_gently(ends_[0]);
  ends_[0] = -1;
  char answer[16] = {};
  EXPECT_EQ(::recv(ends_[1], answer, sizeof(answer), 0), 6);
  EXPECT_EQ(std::string(answer), "answer");
  EXPECT_EQ(::recv(ends_[1], answer, sizeof(answer), 0), 0);
}

}  // namespace
}  // namespace megacpp::http
