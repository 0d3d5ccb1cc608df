// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/workers.h"

#include <utility>

#include "megacpp/core/base/thread.h"

namespace megacpp::http {

Workers::Workers(size_t threads) {
  try {
    for (size_t i = 0; i < threads; ++i) threads_.push_back(base::start_thread("requests", [this] { work(); }));
  } catch (...) {
    end();
    throw;
  }
}

Workers::~Workers() { end(); }

void Workers::end() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::give(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push(std::move(task));
  }
  wake_.notify_one();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace megacpp::http
