// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/head_reader.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <thread>

namespace megacpp::http {
namespace {

using namespace std::chrono_literals;

/// The client's end of a connection, whose other end the reader has.
class Connection {
 public:
  explicit Connection(HeadReader& reader) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    reader.add(ends_[0]);
  }
  ~Connection() { leave(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const std::string& text) const {
    EXPECT_EQ(::send(ends_[1], text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void leave() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  /// Waits for the reader to close its end.
  bool is_cut() const {
    char byte = 0;
    return ::recv(ends_[1], &byte, 1, 0) <= 0;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// A reader on a thread of its own, and the heads that it hands on.
class HeadReaderTest : public testing::Test {
 protected:
  ~HeadReaderTest() override { stop(); }

  HeadReader& start(const HeadReader::Limits& limits) {
    reader_ = std::make_unique<HeadReader>(limits, [this](int socket, const std::string& head) {
      ::close(socket);
      const std::lock_guard lock(mutex_);
      heads_.push_back(head);
      came_.notify_all();
    });
    thread_ = std::thread([this] { reader_->run(); });
    return *reader_;
  }
  void stop() {
    if (!reader_) return;
    reader_->stop();
    thread_.join();
    reader_.reset();
  }
  /// Waits for it.
  bool is_handed_on(const std::string& head) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, 20s, [&] { return std::ranges::find(heads_, head) != heads_.end(); });
  }

  static constexpr HeadReader::Limits kPatient{.time = 1h, .bytes = 100, .most = 10, .most_of_address = 10};

 private:
  std::unique_ptr<HeadReader> reader_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> heads_;
};

TEST_F(HeadReaderTest, AHeadIsHandedOnWhenItIsWhole) {
  HeadReader& reader = start(kPatient);
  const Connection slow(reader), quick(reader);
  slow.send("GET / HT");
  quick.send("GET /quick HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(is_handed_on("GET /quick HTTP/1.1\r\n\r\n")) << "behind one that is not whole";
  slow.send("TP/1.1\r\nHost: a\r\n\r\nrest");
  EXPECT_TRUE(is_handed_on("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"));
}

TEST_F(HeadReaderTest, WhatIsTooLongOrEndsEarlyIsHandedOnAsItIs) {
  HeadReader& reader = start(kPatient);
  const Connection longer(reader);
  longer.send(std::string(150, 'a'));
  EXPECT_TRUE(is_handed_on(std::string(100, 'a')));
  Connection shorter(reader);
  shorter.send("GET /");
  shorter.leave();
  EXPECT_TRUE(is_handed_on("GET /"));
}

TEST_F(HeadReaderTest, TimeEndsForWhoDripsAndForWhoSaysNothing) {
  HeadReader& reader = start({.time = 50ms, .bytes = 100, .most = 10, .most_of_address = 10});
  const Connection silent(reader), half(reader);
  half.send("GET");
  EXPECT_TRUE(is_handed_on("GET"));
  EXPECT_TRUE(silent.is_cut());
}

TEST_F(HeadReaderTest, OneTooManyCutsOffWhoHasWaitedLongest) {
  for (const size_t most : {2, 10}) {
    HeadReader& reader = start({.time = 1h, .bytes = 100, .most = most, .most_of_address = 12 - most});
    const Connection first(reader), second(reader), third(reader);
    EXPECT_TRUE(first.is_cut());
    second.send("second\n\r\n");
    third.send("third\n\r\n");
    EXPECT_TRUE(is_handed_on("second\n\r\n"));
    EXPECT_TRUE(is_handed_on("third\n\r\n"));
    stop();
  }
}

TEST_F(HeadReaderTest, StoppingEndsAllThatWait) {
  HeadReader& reader = start(kPatient);
  const Connection one(reader), other(reader);
  one.send("GET /");
  stop();
  EXPECT_TRUE(one.is_cut());
  EXPECT_TRUE(other.is_cut());
}

}  // namespace
}  // namespace megacpp::http
