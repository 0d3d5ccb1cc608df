// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/planning_progress.h"

#include <chrono>

#include <fmt/format.h>

#include "megacpp/cli/print_log.h"
#include "megacpp/core/base/counted.h"

namespace megacpp::cli {

std::function<void(std::string_view)> planning_progress() {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const Clock::time_point start = Clock::now();
  return [start, next = start + std::chrono::seconds(1), compiled = 0](std::string_view pass) mutable {
    constexpr std::string_view kLastPass = "memory";
    compiled += pass == kLastPass ? 1 : 0;
    const Clock::time_point now = Clock::now();
    if (now < next) return;
    next = now + std::chrono::seconds(1);
    print_line({.topic = "planning",
                .text = fmt::format("{} compiled, pass {} of the next, {:.0f} s", base::counted(compiled, "plan"), pass,
                                    Seconds(now - start).count())});
  };
}

}  // namespace megacpp::cli
