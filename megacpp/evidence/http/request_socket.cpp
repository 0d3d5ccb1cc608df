// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/request_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace megacpp::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Whether the socket is ready, or failed, within that time; `events` as of poll().
bool wait_for_socket(int socket, short events, milliseconds time) {
  const auto end = steady_clock::now() + time;
  for (;;) {
    pollfd polled{.fd = socket, .events = events, .revents = 0};
    const auto left = std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(end - steady_clock::now()));
    const int ready = ::poll(&polled, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

bool is_writable(int socket, milliseconds time) {
  char next = 0;
  const ssize_t got = ::recv(socket, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  return !is_gone && wait_for_socket(socket, POLLOUT, time);
}

bool send_all(int socket, std::string_view text, milliseconds time) {
  while (!text.empty()) {
    if (!wait_for_socket(socket, POLLOUT, time)) return false;
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void close_gently(int socket) {
  ::shutdown(socket, SHUT_WR);
  const auto end = steady_clock::now() + milliseconds(500);
  char rest[1024];
  while (steady_clock::now() < end && wait_for_socket(socket, POLLIN, milliseconds(100)) &&
         ::recv(socket, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
  }
  ::close(socket);
}

}  // namespace megacpp::http
