// SPDX-License-Identifier: Apache-2.0
// What a command prints. Data goes to stdout and arrives there, or the command fails with E3001. Progress and messages
// go to stderr; a full disk or a reader who left costs these lines, never the work they are about.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace megacpp::cli {

/// Begins the output of a command: nothing is written yet.
void begin_output();
bool has_output();

/// Appends to stdout, E3001 where the system refuses it. What is buffered is written by flush_output().
void write_output(std::string_view text);
void flush_output();

void write_message(std::string_view text);

template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void print_err(fmt::format_string<Args...> format, Args&&... args) {
  write_message(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace megacpp::cli
