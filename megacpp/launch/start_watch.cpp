// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/start_watch.h"

#include <utility>

#include "megacpp/launch/run_directory.h"

namespace megacpp::launch {

StartWatch::StartWatch(std::filesystem::path run, std::chrono::milliseconds limit)
    : run_(std::move(run)), limit_(limit) {}

bool StartWatch::is_overdue() {
  const bool is_used = is_in_use(run_);
  was_in_use_ |= is_used;
  if (is_used || !was_in_use_)
    ended_.reset();
  else if (!ended_)
    ended_ = Clock::now();
  was_overdue_ = ended_ && Clock::now() - *ended_ >= limit_;
  return was_overdue_;
}

}  // namespace megacpp::launch
