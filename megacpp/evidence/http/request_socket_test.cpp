// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/request_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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

TEST_F(RequestSocketTest, AClientThatLeftIsSeen) {
  EXPECT_TRUE(is_writable(ends_[0], 50ms));
  leave();
  EXPECT_FALSE(is_writable(ends_[0], 50ms));
  EXPECT_FALSE(send_all(ends_[0], "x", 50ms)) << "and no signal ends the process";
}

TEST_F(RequestSocketTest, AClientThatTakesNothingIsLeft) {
  EXPECT_FALSE(send_all(ends_[0], std::string(1 << 24, 'x'), 50ms));
  EXPECT_FALSE(is_writable(ends_[0], 50ms));
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
