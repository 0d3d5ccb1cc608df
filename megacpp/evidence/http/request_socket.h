// SPDX-License-Identifier: Apache-2.0
// The socket of one client whose request's head has been read (head_reader.h): writes are bounded in time, for a client
// that takes nothing.
#pragma once

#include <chrono>
#include <string_view>

namespace megacpp::http {

/// False as soon as the client is gone, and where it takes nothing within that time.
bool is_writable(int socket, std::chrono::milliseconds time);
/// Whether all was written; a write may be without progress for that time.
bool send_all(int socket, std::string_view text, std::chrono::milliseconds time);

/// Tells the client that nothing follows, then reads what it still sends for a moment, so that closing does not take
/// back what it was sent. Closes the socket.
void close_gently(int socket);

}  // namespace megacpp::http
