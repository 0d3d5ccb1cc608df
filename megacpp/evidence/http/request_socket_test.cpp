// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/request_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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

  void leave() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }

  int ends_[2] = {-1, -1};
};

TEST_F(RequestSocketTest, ReadsItsHeadAndNoMore) {
  RequestSocket socket(ends_[0], "0123456789", 50ms);
  ASSERT_EQ(::send(ends_[1], "abc", 3, 0), 3);
  std::string read(20, '.');
  ASSERT_EQ(socket.read(read.data(), 4), 4);
  EXPECT_TRUE(socket.is_readable());
  ASSERT_EQ(socket.read(read.data() + 4, 16), 6);
  EXPECT_EQ(read.substr(0, 10), "0123456789");
  EXPECT_FALSE(socket.is_readable());
  EXPECT_EQ(socket.read(read.data(), 4), 0);
}

TEST_F(RequestSocketTest, AClientThatLeftIsSeen) {
  RequestSocket socket(ends_[0], "", 50ms);
  EXPECT_TRUE(socket.is_writable());
  leave();
  EXPECT_FALSE(socket.is_writable());
  EXPECT_LT(socket.write("x", 1), 0) << "and no signal ends the process";
}

TEST_F(RequestSocketTest, AClientThatTakesNothingIsLeft) {
  RequestSocket socket(ends_[0], "", 50ms);
  const std::string text(1 << 16, 'x');
  int written = 0;
  while (written < 10'000 && socket.write(text.data(), text.size()) > 0) ++written;
  EXPECT_LT(written, 10'000);
}

TEST_F(RequestSocketTest, ClosingLeavesTheAnswerReadable) {
  ASSERT_EQ(::send(ends_[1], "a rest that nobody reads", 24, 0), 24);
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
