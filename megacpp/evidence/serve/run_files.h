// SPDX-License-Identifier: Apache-2.0
// What stands in the directory of a run, as far as the dashboard reads it: regular files alone, no links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::serve {

struct RunFiles {
  std::string stamp = {};  // of all that is read; another one after each change
  int64_t started = 0;     // when its recipe was written, in nanoseconds since 1970
  int64_t logged = 0;      // when its log was written to, in the same; 0: never
  bool has_receipt = false;
  std::string problem = {};  // a file that is not read, because it is a link or no regular file
};
RunFiles look_at(const std::filesystem::path& run);

/// Whether a process trains in it now. Takes its lock for an instant, so it is for runs that say they go on.
bool is_live(const std::filesystem::path& run);

/// The receipt as it is stored, cheap to read; of a run without one, what its recipe and log have.
receipt::Receipt stored_receipt(const std::filesystem::path& run, const RunFiles& files);

/// For one line: "E1801 receipt is damaged or edited: no checksum".
std::string problem_text(const base::Error& error);

}  // namespace megacpp::serve
