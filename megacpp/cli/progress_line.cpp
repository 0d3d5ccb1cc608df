// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/progress_line.h"

#include <unistd.h>

#include "megacpp/cli/output.h"

namespace megacpp::cli {

ProgressLine::ProgressLine(std::string title)
    : title_(std::move(title)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() {
  if (moving_) print_err("\n");
}

bool ProgressLine::is_due() const { return Clock::now() >= next_; }

void ProgressLine::print(const std::string& text) {
  if (terminal_) show_moving_line(title_ + ": " + text);
  if (!terminal_) print_err("{}: {}\n", title_, text);
  moving_ = terminal_;
  next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000));
}

}  // namespace megacpp::cli
