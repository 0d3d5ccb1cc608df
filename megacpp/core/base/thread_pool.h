// SPDX-License-Identifier: Apache-2.0
// The worker threads of one chip. Work is split statically, so the same pool size gives the same results
// bit for bit. run() and parallel_for() never allocate.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace megacpp::base {

class ThreadPool {
 public:
  /// `threads` workers including the caller of run(). E3002 when the system will not start that many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// Calls body(worker) once on every worker, worker 0 being the caller; returns when all are done.
  /// The body must not throw and must not call the pool again.
  template <typename Body>
  void run(const Body& body) {
    dispatch([](const void* context, int worker) { (*static_cast<const Body*>(context))(worker); }, &body);
  }

  /// Calls body(begin, end, worker) on contiguous ranges that cover [0, count). A range is a multiple of `grain`
  /// long, but for the last; work smaller than one grain runs on the caller alone.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    const int64_t grains = (count + grain - 1) / grain;
    if (grains <= 1 || size_ == 1) {
      if (count > 0) body(int64_t{0}, count, 0);
      return;
    }
    run([&](int worker) {
      const int64_t begin = grains * worker / size_ * grain;
      const int64_t end = std::min(count, grains * (worker + 1) / size_ * grain);
      if (begin < end) body(begin, end, worker);
    });
  }

  /// Calls body(item, worker) for each item, handed out one by one: for items of uneven cost whose
  /// results do not depend on which worker ran them.
  template <typename Body>
  void for_each(int64_t count, const Body& body) {
    if (count <= 1 || size_ == 1) {
      for (int64_t item = 0; item < count; ++item) body(item, 0);
      return;
    }
    next_item_.store(0, std::memory_order_relaxed);
    run([&](int worker) {
      for (int64_t item; (item = next_item_.fetch_add(1, std::memory_order_relaxed)) < count;) body(item, worker);
    });
  }

 private:
  using Call = void (*)(const void* context, int worker);
  void dispatch(Call call, const void* context);
  void work(int worker);
  void stop();

  int size_;
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<int64_t> next_item_{0};
  std::atomic<bool> stop_{false};
  Call call_ = nullptr;
  const void* context_ = nullptr;
};

}  // namespace megacpp::base
