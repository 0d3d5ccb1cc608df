// SPDX-License-Identifier: Apache-2.0
// Threads that run tasks in the order in which they are given. A task must not throw.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace megacpp::http {

class Workers {
 public:
  /// E3002 where the system does not start that many threads.
  explicit Workers(size_t threads);
  /// Ends when every task that was given has run.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// On any thread.
  void give(std::function<void()> task);

 private:
  void work();
  void end();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::function<void()>> tasks_;  // guarded by mutex_, like the next
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace megacpp::http
