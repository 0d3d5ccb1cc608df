// SPDX-License-Identifier: Apache-2.0
// Where output to a path goes. Files are replaced whole; what is no file, such as a terminal or a FIFO, is written
// through and never replaced; a symbolic link stays, and what it leads to is written.
#pragma once

#include <filesystem>
#include <string_view>

namespace megacpp::base {

struct OutputPath {
  std::filesystem::path target;  // links followed; need not exist
  bool is_file = true;           // a regular file, or nothing yet
};

/// E3001 for an empty path, a folder, the file behind stdout or stderr, and links in a circle.
OutputPath resolve_output(const std::filesystem::path& path);

/// E3001 unless the path could be written now: for what is only written at the end of long work.
void require_writable(const std::filesystem::path& path);

/// E3001: "cannot open: No such file or directory", of the path that the user named.
[[noreturn]] void fail_writing(const std::filesystem::path& path, std::string_view action, int error);

}  // namespace megacpp::base
