// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/start_watch.h"

#include <utility>

#include "megacpp/run/launch/run_directory.h"

namespace megacpp::launch {

StartWatch::StartWatch(std::filesystem::path run, std::chrono::milliseconds limit)
    : run_(std::move(run)), limit_(limit) {}

bool StartWatch::is_overdue(base::Children children) {
  const bool is_used = is_in_use(run_);
  was_in_use_ |= is_used;
  const bool has_ended = !is_used && (was_in_use_ || children == base::Children::ended);
  if (!has_ended)
    ended_.reset();
  else if (!ended_)
    ended_ = Clock::now();
  was_overdue_ = ended_ && Clock::now() - *ended_ >= limit_;
  return was_overdue_;
}

}  // namespace megacpp::launch
