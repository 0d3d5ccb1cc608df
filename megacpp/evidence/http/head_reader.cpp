// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/head_reader.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::http {
namespace {

using std::chrono::steady_clock;

/// Without the port. Clients of a local socket have none, and count as one.
HeadReader::Address peer_address(int socket) {
  HeadReader::Address address{};
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return address;
  if (peer.ss_family == AF_INET)
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in&>(peer).sin_addr, sizeof(in_addr));
  if (peer.ss_family == AF_INET6)
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr));
  return address;
}

// As the library ends a head: by a line that has nothing but its end.
bool is_whole(const std::string& head) { return head.find("\n\r\n") != std::string::npos; }

bool would_wait(ssize_t got) { return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR); }

}  // namespace

HeadReader::HeadReader(const Limits& limits, OnHead on_head)
    : limits_(limits), on_head_(std::move(on_head)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MEGACPP_REQUIRE(wake_ >= 0, E3002,
                  {.where = "the server",
                   .got = std::string("no event: ") + std::strerror(errno),
                   .wanted = "one that wakes it",
                   .next = "close other programs and try again"});
  clients_.reserve(limits_.most);
  polled_.reserve(limits_.most + 1);
}

HeadReader::~HeadReader() {
  for (const Client& client : clients_) ::close(client.socket);
  for (const int socket : new_) ::close(socket);
  ::close(wake_);
}

void HeadReader::add(int socket) {
  {
    const std::lock_guard lock(mutex_);
    new_.push_back(socket);
  }
  ::eventfd_write(wake_, 1);
}

void HeadReader::stop() {
  is_stopping_ = true;
  ::eventfd_write(wake_, 1);
}

void HeadReader::run() {
  while (!is_stopping_) {
    wait();
    read_from_all();
    admit_new();
  }
}

void HeadReader::wait() {
  polled_.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
  for (const Client& client : clients_) polled_.push_back({.fd = client.socket, .events = POLLIN, .revents = 0});
  int milliseconds = -1;
  if (!clients_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(clients_.front().end - steady_clock::now());
    milliseconds = static_cast<int>(std::max<int64_t>(0, left.count()));
  }
  ::poll(polled_.data(), polled_.size(), milliseconds);
  eventfd_t ignored = 0;
  ::eventfd_read(wake_, &ignored);
}

void HeadReader::read_from_all() {
  const auto now = steady_clock::now();
  std::erase_if(clients_, [&](Client& client) {
    if (read_from(client) == Progress::is_done) return true;
    if (now < client.end) return false;
    hand_on(client);
    return true;
  });
}

void HeadReader::admit_new() {
  std::vector<int> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(new_);
  }
  for (const int socket : added)
    admit({.socket = socket, .address = peer_address(socket), .end = steady_clock::now() + limits_.time});
}

// Who has sent a whole head by now needs no room.
void HeadReader::admit(Client client) {
  if (read_from(client) == Progress::is_done) return;
  make_room(client.address);
  clients_.push_back(std::move(client));
}

void HeadReader::make_room(const Address& address) {
  const auto is_neighbour = [&](const Client& client) { return client.address == address; };
  auto oldest = clients_.end();
  if (static_cast<size_t>(std::ranges::count_if(clients_, is_neighbour)) >= limits_.most_of_address)
    oldest = std::ranges::find_if(clients_, is_neighbour);
  else if (clients_.size() >= limits_.most)
    oldest = clients_.begin();
  if (oldest == clients_.end()) return;
  if (read_from(*oldest) == Progress::waits) ::close(oldest->socket);
  clients_.erase(oldest);
}

HeadReader::Progress HeadReader::receive(Client& client) const {
  char part[2048];
  for (;;) {
    const size_t room = std::min(sizeof(part), limits_.bytes - client.head.size());
    const ssize_t got = ::recv(client.socket, part, room, MSG_DONTWAIT);
    if (would_wait(got)) return Progress::waits;
    if (got <= 0) return Progress::is_done;
    client.head.append(part, static_cast<size_t>(got));
    if (is_whole(client.head) || client.head.size() >= limits_.bytes) return Progress::is_done;
  }
}

// Where memory runs out this client gets no answer, and the others do.
HeadReader::Progress HeadReader::read_from(Client& client) {
  try {
    if (receive(client) == Progress::waits) return Progress::waits;
  } catch (const std::bad_alloc&) {
    client.head.clear();
  }
  hand_on(client);
  return Progress::is_done;
}

void HeadReader::hand_on(Client& client) {
  if (client.head.empty()) {
    ::close(client.socket);
    return;
  }
  try {
    on_head_(client.socket, std::move(client.head));
  } catch (const std::bad_alloc&) {
    ::close(client.socket);
  }
}

}  // namespace megacpp::http
