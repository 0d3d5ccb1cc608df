// SPDX-License-Identifier: Apache-2.0
#include "megacpp/http/workers.h"

#include <string>
#include <system_error>
#include <utility>

#include "megacpp/base/error.h"

namespace megacpp::http {

Workers::Workers(size_t threads) {
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    end();
    base::raise(base::Code::E3002,
                {.where = "threads of the server",
                 .got = std::string(error.what()) + " after " + std::to_string(started) + " threads",
                 .wanted = std::to_string(threads) + " threads",
                 .next = "close other programs, or raise the limit on threads (ulimit -u) or memory (ulimit -v)"});
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
