// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/silent_process_watch.h"

#include <chrono>
#include <optional>
#include <utility>

namespace megacpp::launch {
namespace {

// Together well below the second that launchers give.
constexpr std::chrono::milliseconds kLookEvery(50), kAnswer(400);

}  // namespace

SilentProcessWatch::SilentProcessWatch(Agreement& agreement, std::function<bool()> has_stopped,
                                       std::function<void(const std::string& process)> say) {
  if (agreement.is_alone()) return;
  thread_ = std::thread([this, &agreement, has_stopped = std::move(has_stopped), say = std::move(say)] {
    while (!is_over_ && !has_stopped()) std::this_thread::sleep_for(kLookEvery);
    if (is_over_) return;
    const std::optional<std::string> silent = agreement.silent_neighbour(kAnswer);
    if (silent && !is_over_) say(*silent);
  });
}

SilentProcessWatch::~SilentProcessWatch() {
  is_over_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace megacpp::launch
