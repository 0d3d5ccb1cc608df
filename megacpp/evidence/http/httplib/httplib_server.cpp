// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/httplib/httplib_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>

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

std::vector<std::string> header_values(const httplib::Request& in, const char* name) {
  std::vector<std::string> values;
  const auto [begin, end] = in.headers.equal_range(name);
  for (auto header = begin; header != end; ++header) values.push_back(header->second);
  return values;
}

Request request_of(const httplib::Request& in) {
  Request request{.method = in.method, .target = in.target};
  request.hosts = header_values(in, "Host");
  request.cookies = header_values(in, "Cookie");
  const std::vector<std::string> authorizations = header_values(in, "Authorization");
  if (authorizations.size() == 1) request.authorization = authorizations.front();
  return request;
}

void send_answer(const Answer& answer, httplib::Response& out) {
  out.status = answer.status;
  for (const auto& [name, value] : answer.headers) out.set_header(name, value);
  out.set_content(answer.body, answer.type);
}

/// A RequestSocket as the library wants it. It has no names for the two ends: nothing asks for them.
class RequestStream final : public httplib::Stream {
 public:
  explicit RequestStream(RequestSocket& socket) : socket_(socket) {}

  bool is_readable() const override { return socket_.is_readable(); }
  bool is_writable() const override { return socket_.is_writable(); }
  ssize_t read(char* to, size_t most) override { return socket_.read(to, most); }
  ssize_t write(const char* from, size_t bytes) override { return socket_.write(from, bytes); }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_.socket(); }

 private:
  RequestSocket& socket_;
};

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

/// Events that are being sent.
struct OpenStream {
  OpenStream(std::atomic<size_t>& open, size_t most, EventSource sent) : slot(open, most), events(std::move(sent)) {}

  StreamSlot slot;
  EventSource events;
  std::optional<steady_clock::time_point> last_sent = {};
};

/// What the library gives to its workers is to hand a connection on, which takes no time.
class AcceptingThread final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

class HttplibServer final : public Server, private httplib::Server {
 public:
  HttplibServer(const Listen& listen, const std::function<Responder(int port)>& responder) : listen_(listen) {
    // Without SO_REUSEPORT, which is the library's default: two processes would share a port.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    new_task_queue = [] { return new AcceptingThread; };
    set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
      handle(in, out);
      return HandlerResponse::Handled;
    });
    // Requests that the library itself refuses have none of our headers yet.
    set_error_handler([this](const httplib::Request&, httplib::Response& out) {
      if (!out.has_header("X-Content-Type-Options")) send_answer(responder_.refusal(out.status), out);
    });
    bind_socket();
    ::listen(svr_sock_, kMostUnaccepted);  // the library's is 5: one more would be tried again after a second
    responder_ = responder(port_);
    heads_.emplace(HeadReader::Limits{.time = listen.head_time,
                                      .bytes = kMostHeadBytes,
                                      .most = kMostHeads,
                                      .most_of_address = kMostHeadsOfAddress},
                   [this](int socket, std::string head) {
                     workers_->give([this, socket, head = std::move(head)] { answer_and_close(socket, head); });
                   });
    workers_.emplace(listen.threads + 2);
    workers_->give([this] { heads_->run(); });
    workers_->give([this] { listen_after_bind(); });
    // The library forgets a stop that comes before it runs.
    for (int i = 0; i < 5'000 && !is_running(); ++i) std::this_thread::sleep_for(milliseconds(1));
  }

  ~HttplibServer() override {
    {
      const std::lock_guard lock(stop_mutex_);
      is_stopping_ = true;
    }
    stopped_.notify_all();
    stop();
    heads_->stop();
    workers_.reset();
  }
  HttplibServer(const HttplibServer&) = delete;
  HttplibServer& operator=(const HttplibServer&) = delete;

  int port() const override { return port_; }

 private:
  void bind_socket() {
    errno = 0;
    port_ = listen_.port;
    const bool is_bound = listen_.port == 0 ? (port_ = bind_to_any_port(listen_.address)) > 0
                                            : bind_to_port(listen_.address, listen_.port);
    const std::string reason = errno == 0 ? "the address is refused" : std::strerror(errno);
    MEGACPP_REQUIRE(is_bound, E3004,
                    {.where = listen_.where,
                     .got = fmt::format("{}: {}", host_text(listen_.address, listen_.port), reason),
                     .wanted = "an address of this machine and a port that no other process has; those below 1024 are "
                               "the system's",
                     .next = "give another port, or 0 for any that is free"});
  }

  // Private to the library and virtual: the way to read heads before a worker has the request.
  bool process_and_close_socket(socket_t socket) override {
    try {
      heads_->add(socket);
    } catch (const std::exception&) {  // memory that ran out
      ::close(socket);
    }
    return true;
  }

  /// By a worker, which nothing but its answer keeps: the head is there.
  void answer_and_close(socket_t socket, std::string head) {
    try {
      RequestSocket bounded(socket, std::move(head), kWriteTime);
      RequestStream stream(bounded);
      bool is_closed = false;
      process_request(stream, true, is_closed, [](httplib::Request& request) { request.ranges.clear(); });
    } catch (const std::exception&) {
      // Memory that ran out: this client gets no answer, the others do.
    }
    close_gently(socket);
  }

  void handle(const httplib::Request& in, httplib::Response& out) {
    Answer made = responder_.answer(request_of(in));
    if (!made.events) {
      send_answer(made, out);
      return;
    }
    // Shared by the copies of the function below that the library makes.
    const auto open = std::make_shared<OpenStream>(open_streams_, listen_.most_events, std::move(*made.events));
    if (!open->slot.has_room()) {
      send_answer(responder_.refusal(503), out);
      return;
    }
    out.status = made.status;
    for (const auto& [name, value] : made.headers) out.set_header(name, value);
    out.set_chunked_content_provider(made.type,
                                     [this, open](size_t, httplib::DataSink& sink) { return push(*open, sink); });
  }

  /// Sends what is new, or waits a little; called again and again. False ends the connection.
  bool push(OpenStream& open, httplib::DataSink& sink) {
    if (!sink.is_writable()) return false;  // a reader who left gives its place to others at once
    std::string text = open.last_sent ? "" : "retry: 2000\n\n";
    const std::optional<Event> event = open.events.next();
    if (event) text += event->text;
    const auto now = steady_clock::now();
    if (text.empty() && now - *open.last_sent > kHeartbeat) text = ": still here\n\n";
    if (!text.empty()) {
      open.last_sent = now;
      if (!sink.write(text.data(), text.size())) return false;
    }
    if (event && event->is_last) {
      sink.done();
      return true;
    }
    std::unique_lock lock(stop_mutex_);
    return !stopped_.wait_for(lock, open.events.pause, [this] { return is_stopping_.load(); });
  }

  Listen listen_;
  Responder responder_;
  int port_ = 0;
  std::atomic<size_t> open_streams_ = 0;
  std::mutex stop_mutex_;
  std::condition_variable stopped_;
  std::atomic<bool> is_stopping_ = false;
  std::optional<HeadReader> heads_;
  std::optional<Workers> workers_;
};

}  // namespace

std::unique_ptr<Server> serve_by_httplib(const Listen& listen, const std::function<Responder(int port)>& responder) {
  return std::make_unique<HttplibServer>(listen, responder);
}

}  // namespace megacpp::http
