// SPDX-License-Identifier: Apache-2.0
// One connection to a port of this machine that sends whatever it is told to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace megacpp::testing_support {

class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~HttpClient() { ::close(socket_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool is_connected() const { return is_connected_; }
  /// The server has closed the connection, as far as was read.
  bool is_ended() const { return is_ended_; }

  void send(const std::string& text) const { (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }

  /// Reads until it has seen `mark`, the server ends or the time is up; what came in all.
  const std::string& read_until(const std::string& mark, std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while ((mark.empty() || text_.find(mark) == std::string::npos) && std::chrono::steady_clock::now() < end) {
      pollfd polled{.fd = socket_, .events = POLLIN, .revents = 0};
      if (::poll(&polled, 1, 20) <= 0) continue;
      char part[4096];
      const ssize_t got = ::recv(socket_, part, sizeof(part), 0);
      if (got <= 0) {
        is_ended_ = true;
        break;
      }
      text_.append(part, static_cast<size_t>(got));
    }
    return text_;
  }
  const std::string& read_all() { return read_until("", std::chrono::seconds(20)); }

 private:
  int socket_;
  bool is_connected_ = false;
  bool is_ended_ = false;
  std::string text_;
};

/// The whole answer to what was sent.
inline std::string answer_to(int port, const std::string& sent) {
  HttpClient client(port);
  client.send(sent);
  return client.read_all();
}

/// Of an answer; 0 where it is none.
inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

/// A request without a body; `line` is its method and target, `more` are header lines.
inline std::string request_head(int port, const std::string& line, const std::string& more = "") {
  return line + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" + more + "\r\n";
}

}  // namespace megacpp::testing_support
