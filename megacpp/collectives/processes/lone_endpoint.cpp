// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/lone_endpoint.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace megacpp::collectives {
namespace {

class LoneEndpoint final : public Endpoint {
 public:
  int64_t process() const override { return 0; }
  int64_t processes() const override { return 1; }
  std::string host() const override { return "this machine"; }
  std::span<std::byte> room(int64_t) override { return {}; }
  void send(int64_t, size_t) override {}
  bool is_flushed() override { return true; }
  bool poll(Receiver&) override { return false; }
  void wait(std::chrono::microseconds limit) override {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, limit, [this] { return is_awake_; });
    is_awake_ = false;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    is_awake_ = true;
    woken_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool is_awake_ = false;
};

}  // namespace

std::unique_ptr<Endpoint> lone_endpoint() { return std::make_unique<LoneEndpoint>(); }

}  // namespace megacpp::collectives
