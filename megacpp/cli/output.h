// SPDX-License-Identifier: Apache-2.0
// What a command prints. Data goes to stdout and arrives there, or the command fails with E3001. Progress and messages
// go to stderr; a full disk or a reader who left costs these lines, never the work they are about. Names and texts from
// outside reach no terminal as they are: control characters are escaped (base/utf8.h), and what is given to a format
// string stays within its line.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/utf8.h"

namespace megacpp::cli {

/// Begins the output of a command: nothing is written yet.
void begin_output();
bool has_output();

/// Appends lines to stdout, E3001 where the system refuses them. What is buffered is written by flush_output(). Names
/// in `lines` are escaped by whoever lays them out (base::printable_in_line()); here they could make lines.
void write_output(std::string_view lines);
/// The same of bytes that are the command's result, such as the text that a model generates: they stay as they are.
void write_bytes(std::string_view bytes);
void flush_output();

void write_message(std::string_view lines);
/// On a terminal, over the line that was shown before; another message begins behind it.
void show_moving_line(std::string_view line);

/// What a format string is given: a number as it is, a text so that it stays within its line.
template <typename T>
using Shown = std::conditional_t<std::is_arithmetic_v<std::remove_cvref_t<T>>, std::remove_cvref_t<T>, std::string>;

template <typename T>
Shown<T> shown(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return base::printable_in_line(value);
}

template <typename... Args>
void print_out(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  write_output(fmt::format(format, shown(args)...));
}

template <typename... Args>
void print_err(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  write_message(fmt::format(format, shown(args)...));
}

}  // namespace megacpp::cli
