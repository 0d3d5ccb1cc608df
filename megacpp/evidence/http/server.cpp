// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/http/head_reader.h"
#include "megacpp/evidence/http/request_socket.h"
#include "megacpp/evidence/http/workers.h"

namespace megacpp::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kHeartbeat{15};  // so that a reader who left is noticed
constexpr int kMostUnaccepted = 128;            // connections

/// Without a reason phrase, which nobody reads. `length`: of the body; none: it ends with the connection.
std::string head_text(const Answer& answer, std::optional<size_t> length) {
  std::string head =
      fmt::format("HTTP/1.1 {} \r\nContent-Type: {}\r\nConnection: close\r\n", answer.status, answer.type);
  for (const auto& [name, value] : answer.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (length) head += fmt::format("Content-Length: {}\r\n", *length);
  return head + "\r\n";
}

/// One of the streams that are open, as long as it exists.
class StreamSlot {
 public:
  StreamSlot(std::atomic<size_t>& open, size_t most) : open_(open), has_room_(open.fetch_add(1) < most) {}
  ~StreamSlot() { open_.fetch_sub(1); }
  StreamSlot(const StreamSlot&) = delete;
  StreamSlot& operator=(const StreamSlot&) = delete;

  bool has_room() const { return has_room_; }

 private:
  std::atomic<size_t>& open_;
  bool has_room_;
};

/// A socket that listens.
class Listener {
 public:
  explicit Listener(const Listen& listen) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(listen.port);
    if (::getaddrinfo(listen.address.c_str(), port.c_str(), &hints, &found) != 0) refuse(listen, "no such address");
    socket_ = ::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
    // Not SO_REUSEPORT: two processes would share a port.
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const bool listens =
        ::bind(socket_, found->ai_addr, found->ai_addrlen) == 0 && ::listen(socket_, kMostUnaccepted) == 0;
    const int error = errno;
    ::freeaddrinfo(found);
    if (listens) return;
    ::close(socket_);
    refuse(listen, std::strerror(error));
  }
  ~Listener() { ::close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const {
    char number[NI_MAXSERV] = {};
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, number, sizeof(number), NI_NUMERICSERV);
    return std::stoi(number);
  }
  /// The next client; less than 0 where the system has no file for it now, or once stop() was called.
  int accept() const { return ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC); }
  void stop() const { ::shutdown(socket_, SHUT_RDWR); }

 private:
  [[noreturn]] static void refuse(const Listen& listen, const std::string& reason) {
    base::raise(base::Code::E3004,
                {.where = listen.where,
                 .got = fmt::format("{}: {}", host_text(listen.address, listen.port), reason),
                 .wanted = "an address of this machine and a port that no other process has; those below 1024 are the "
                           "system's",
                 .next = "give another port, or 0 for any that is free"});
  }

  int socket_ = -1;
};

class SocketServer final : public Server {
 public:
  SocketServer(const Listen& listen, const std::function<Responder(int port)>& responder)
      : listen_(listen),
        listener_(listen),
        port_(listener_.port()),
        responder_(responder(port_)),
        heads_({.time = listen.head_time,
                .bytes = kMostHeadBytes,
                .most = kMostHeads,
                .most_of_address = kMostHeadsOfAddress},
               [this](int socket, std::string head) {
                 workers_->give([this, socket, head = std::move(head)] { answer_and_close(socket, head); });
               }) {
    workers_.emplace(listen.threads + 2);
    workers_->give([this] { heads_.run(); });
    workers_->give([this] { accept_all(); });
  }

  ~SocketServer() override {
    {
      const std::lock_guard lock(stop_mutex_);
      is_stopping_ = true;
    }
    stopped_.notify_all();
    listener_.stop();
    heads_.stop();
    workers_.reset();
  }
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  int port() const override { return port_; }

 private:
  void accept_all() {
    while (!is_stopping_) {
      const int socket = listener_.accept();
      if (socket < 0) {
        stops_within(milliseconds(10));
        continue;
      }
      try {
        heads_.add(socket);
      } catch (const std::exception&) {  // memory that ran out
        ::close(socket);
      }
    }
  }

  /// By a worker, which nothing but its answer keeps: the head is there.
  void answer_and_close(int socket, const std::string& head) {
    try {
      const std::optional<Request> request = parse_head(head);
      const bool wants_body = !request || request->method != "HEAD";
      answer(socket, request ? responder_.answer(*request) : responder_.refusal(400), wants_body);
    } catch (const std::exception&) {
      // Memory that ran out: this client gets no answer, the others do.
    }
    close_gently(socket);
  }

  void answer(int socket, Answer made, bool wants_body) {
    if (made.events && wants_body) {
      const StreamSlot slot(open_streams_, listen_.most_events);
      if (slot.has_room()) return send_events(socket, made);
      made = responder_.refusal(503);
    }
    const std::string head = head_text(made, made.events ? std::nullopt : std::optional(made.body.size()));
    send_all(socket, wants_body ? head + made.body : head, kWriteTime);
  }

  /// Until the last one, or until the reader leaves, who gives its place to others at once.
  void send_events(int socket, const Answer& made) {
    std::string text = head_text(made, std::nullopt) + "retry: 2000\n\n";
    auto last_sent = steady_clock::now();
    while (is_writable(socket, kWriteTime)) {
      const std::optional<Event> event = made.events->next();
      if (event) text += event->text;
      if (text.empty() && steady_clock::now() - last_sent > kHeartbeat) text = ": still here\n\n";
      if (!text.empty()) last_sent = steady_clock::now();
      if (!send_all(socket, text, kWriteTime) || (event && event->is_last)) return;
      text.clear();
      if (stops_within(made.events->pause)) return;
    }
  }

  bool stops_within(milliseconds time) {
    std::unique_lock lock(stop_mutex_);
    return stopped_.wait_for(lock, time, [this] { return is_stopping_.load(); });
  }

  const Listen listen_;
  const Listener listener_;
  const int port_;
  const Responder responder_;
  std::atomic<size_t> open_streams_ = 0;
  std::mutex stop_mutex_;
  std::condition_variable stopped_;
  std::atomic<bool> is_stopping_ = false;
  HeadReader heads_;
  std::optional<Workers> workers_;  // ends first: it uses the members above
};

}  // namespace

std::unique_ptr<Server> serve(const Listen& listen, const std::function<Responder(int port)>& responder) {
  return std::make_unique<SocketServer>(listen, responder);
}

}  // namespace megacpp::http
