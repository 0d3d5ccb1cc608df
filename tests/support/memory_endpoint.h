// SPDX-License-Identifier: Apache-2.0
// Endpoints of processes that are threads of one, joined by lists in memory: as many as a test wants, without sockets,
// and every frame is counted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/processes/endpoint.h"

namespace megacpp::testing_support {

/// Where the frames of all processes lie until they are taken.
class PostOffice {
 public:
  explicit PostOffice(int64_t processes) : boxes_(static_cast<size_t>(processes)) {}

  struct Frame {
    int64_t from = 0;
    std::vector<std::byte> bytes;
  };
  struct Box {
    std::mutex mutex;
    std::condition_variable news;
    std::deque<Frame> frames;  // guarded, like the next
    bool is_awake = false;
    std::atomic<int64_t> sent = 0;  // by the process whose box it is
  };

  Box& box(int64_t process) { return boxes_[static_cast<size_t>(process)]; }
  int64_t processes() const { return static_cast<int64_t>(boxes_.size()); }

 private:
  std::deque<Box> boxes_;  // by process
};

class MemoryEndpoint final : public collectives::Endpoint {
 public:
  MemoryEndpoint(std::shared_ptr<PostOffice> office, int64_t process)
      : office_(std::move(office)), process_(process), room_(collectives::kFrameBytes) {}

  int64_t process() const override { return process_; }
  int64_t processes() const override { return office_->processes(); }
  std::string host() const override { return "host" + std::to_string(process_ / kProcessesOfAHost); }

  std::span<std::byte> room(int64_t /*process*/) override { return room_; }
  void send(int64_t process, size_t bytes) override {
    const std::span<const std::byte> frame = std::span(room_).first(bytes);
    PostOffice::Box& box = office_->box(process);
    const std::lock_guard lock(box.mutex);
    box.frames.push_back({process_, {frame.begin(), frame.end()}});
    box.news.notify_one();
    ++office_->box(process_).sent;
  }
  bool is_flushed() override { return true; }

  bool poll(Receiver& receiver) override {
    std::deque<PostOffice::Frame> frames;
    {
      PostOffice::Box& box = office_->box(process_);
      const std::lock_guard lock(box.mutex);
      frames.swap(box.frames);
    }
    for (const PostOffice::Frame& frame : frames) receiver.on_frame(frame.from, frame.bytes);
    return !frames.empty();
  }
  void wait(std::chrono::microseconds limit) override {
    PostOffice::Box& box = office_->box(process_);
    std::unique_lock lock(box.mutex);
    box.news.wait_for(lock, limit, [&box] { return box.is_awake || !box.frames.empty(); });
    box.is_awake = false;
  }
  void wake() override {
    PostOffice::Box& box = office_->box(process_);
    const std::lock_guard lock(box.mutex);
    box.is_awake = true;
    box.news.notify_one();
  }

  static constexpr int64_t kProcessesOfAHost = 8;

 private:
  std::shared_ptr<PostOffice> office_;  // with the endpoints of the other processes
  const int64_t process_;
  std::vector<std::byte> room_;
};

}  // namespace megacpp::testing_support
