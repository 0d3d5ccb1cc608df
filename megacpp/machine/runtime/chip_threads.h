// SPDX-License-Identifier: Apache-2.0
// One thread for each local chip. run() hands the same work to all of them and returns when every one is done; the
// first failure in time is what the caller gets, since the others often fail only because of it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace megacpp::runtime {

class ChipThreads {
 public:
  /// `on_failure` hears of every chip that fails, on that chip's thread, once the failure is kept. E3002 when the
  /// system will not start that many threads. One chip needs none: it runs on the caller's.
  ChipThreads(std::vector<int64_t> chips, std::function<void(int64_t chip, const std::string& what)> on_failure);
  ~ChipThreads();
  ChipThreads(const ChipThreads&) = delete;
  ChipThreads& operator=(const ChipThreads&) = delete;

  /// Calls body(chip) once on every chip's thread. Never allocates unless a chip fails.
  template <typename Body>
  void run(const Body& body) {
    dispatch([](const void* context, int64_t chip) { (*static_cast<const Body*>(context))(chip); }, &body);
  }

 private:
  using Call = void (*)(const void* context, int64_t chip);
  void dispatch(Call call, const void* context);
  void work(int64_t chip);
  void run_alone(Call call, const void* context);
  void stop();

  std::vector<int64_t> chips_;
  std::function<void(int64_t chip, const std::string& what)> on_failure_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  uint64_t generation_ = 0;  // guarded by mutex_, like all below
  int64_t running_ = 0;
  bool stopping_ = false;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr first_failure_;
  std::vector<std::thread> threads_;
};

}  // namespace megacpp::runtime
