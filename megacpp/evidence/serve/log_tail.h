// SPDX-License-Identifier: Apache-2.0
// A run's log while it grows: each look reads what was added since the one before. Bytes that are no sound line yet, or
// never, are passed over; a log that was replaced is read again. No link is followed and no pipe is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "megacpp/run/train/train.h"

namespace megacpp::serve {

class LogTail {
 public:
  struct Reader {
    std::function<void()> restart;  // what was added before is of another file
    std::function<void(const train::StepReport& report)> add;
  };
  /// Without such a file, or where it is no regular one, the reader starts again and gets nothing. Reads about
  /// `most_bytes` at most; whether the end was reached.
  bool follow(const std::filesystem::path& file, const Reader& reader,
              size_t most_bytes = std::numeric_limits<size_t>::max());

 private:
  void add_text(const std::string& text, const Reader& reader);

  uint64_t file_id_ = 0;
  int64_t offset_ = 0;     // bytes that were read
  std::string part_ = {};  // of a line that has no end yet
};

/// The last sound line of a log, from its end; nothing without one. Reads at most a mebibyte.
std::optional<train::StepReport> last_report(const std::filesystem::path& file);

}  // namespace megacpp::serve
