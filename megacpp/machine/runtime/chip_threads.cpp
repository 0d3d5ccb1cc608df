// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/chip_threads.h"

#include <system_error>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/failure.h"

namespace megacpp::runtime {

namespace {

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return collectives::reason_of(error);
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

ChipThreads::ChipThreads(std::vector<int64_t> chips,
                         std::function<void(int64_t chip, const std::string& what)> on_failure)
    : chips_(std::move(chips)), on_failure_(std::move(on_failure)) {
  if (chips_.size() == 1) return;
  try {
    for (const int64_t chip : chips_) threads_.emplace_back([this, chip] { work(chip); });
  } catch (const std::system_error& error) {
    stop();
    base::raise(base::Code::E3002, {.where = "threads of " + std::to_string(chips_.size()) + " virtual chips",
                                    .got = error.what(),
                                    .wanted = "one thread for each chip",
                                    .next = "use fewer chips, or raise the limit on threads (ulimit -u)"});
  }
}

ChipThreads::~ChipThreads() { stop(); }

void ChipThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ChipThreads::dispatch(Call call, const void* context) {
  if (chips_.size() == 1) return run_alone(call, context);
  std::unique_lock lock(mutex_);
  call_ = call;
  context_ = context;
  running_ = static_cast<int64_t>(chips_.size());
  first_failure_ = nullptr;
  ++generation_;
  wake_.notify_all();
  done_.wait(lock, [this] { return running_ == 0; });
  if (first_failure_) std::rethrow_exception(first_failure_);
}

void ChipThreads::run_alone(Call call, const void* context) {
  try {
    call(context, chips_.front());
  } catch (...) {
    on_failure_(chips_.front(), text_of(std::current_exception()));
    throw;
  }
}

void ChipThreads::work(int64_t chip) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
    if (stopping_) return;
    seen = generation_;
    const Call call = call_;
    const void* const context = context_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      call(context, chip);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      if (!first_failure_) first_failure_ = failure;
      lock.unlock();
      on_failure_(chip, text_of(failure));
      lock.lock();
    }
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace megacpp::runtime
