// SPDX-License-Identifier: Apache-2.0
// Text from outside (arguments, file names, values of files) made safe to print: what leaves is always valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::base {

/// `text` with each byte that is no part of valid UTF-8, and each byte of a control character but the line feed and the
/// tab, written as "\xff". A NUL so neither ends a message early, nor does an escape sequence reach a terminal.
std::string printable(std::string_view text);

/// The same for a name that stands within a line: its line feeds and tabs are escaped too, so that it makes no line or
/// column of its own.
std::string printable_in_line(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace megacpp::base
