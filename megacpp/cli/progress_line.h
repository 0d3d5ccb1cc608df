// SPDX-License-Identifier: Apache-2.0
// How far work is that takes longer than a second: one moving line on a terminal, elsewhere a line every ten seconds.
#pragma once

#include <chrono>
#include <string>

namespace megacpp::cli {

class ProgressLine {
 public:
  /// `title` begins each line: "data".
  explicit ProgressLine(std::string title);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether a line is due; asked often.
  bool is_due() const;
  void print(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool terminal_;
  bool moving_ = false;
  Clock::time_point next_;
};

}  // namespace megacpp::cli
