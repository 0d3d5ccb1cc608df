// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/thread_pool.h"

#include <string>
#include <system_error>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

// Kernels follow each other within microseconds, so a worker spins a while before it sleeps.
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

template <typename T>
void wait_while_equal(std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : size_(threads) {
  MEGACPP_CHECK(threads >= 1) << "a pool needs a worker, got " << threads;
  threads_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size() + 1;
    stop();  // a thread that is destroyed while it runs would end the program
    raise(Code::E3002, {.where = "thread pool",
                        .got = std::string(error.what()) + " after " + std::to_string(started) + " threads",
                        .wanted = std::to_string(threads) + " threads",
                        .next = "set train.threads: " + std::to_string(started) + " or fewer, or raise the limit on " +
                                "threads of this user or container"});
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::dispatch(Call call, const void* context) {
  call_ = call;
  context_ = context;
  running_.store(size_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  call(context, 0);
  for (int left; (left = running_.load(std::memory_order_acquire)) != 0;) wait_while_equal(running_, left);
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  while (true) {
    wait_while_equal(generation_, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    call_(context_, worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace megacpp::base
