// SPDX-License-Identifier: Apache-2.0
// Endpoints of processes that are joined by sockets of the kernel, one for each two: for tests of worlds over several
// processes where there is no MPI. The processes may be threads, or forked once the endpoints are made.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/processes/endpoint.h"

namespace megacpp::testing_support {

class SocketEndpoint final : public collectives::Endpoint {
 public:
  /// `sockets`: by process; -1 for this one.
  SocketEndpoint(int64_t process, const std::vector<int>& sockets)
      : process_(process), peers_(sockets.size()), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    MEGACPP_CHECK(wake_ >= 0) << "no eventfd";
    for (size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].socket = sockets[i];
      peers_[i].out.resize(kPrefix + collectives::kFrameBytes);
      peers_[i].in.resize(kPrefix + collectives::kFrameBytes);
    }
  }
  ~SocketEndpoint() override {
    for (const Peer& peer : peers_)
      if (peer.socket >= 0) ::close(peer.socket);
    ::close(wake_);
  }

  int64_t process() const override { return process_; }
  int64_t processes() const override { return static_cast<int64_t>(peers_.size()); }
  std::string host() const override { return "host" + std::to_string(process_); }

  std::span<std::byte> room(int64_t process) override {
    Peer& peer = at(process);
    flush(peer);
    if (peer.socket < 0 || peer.is_sending()) return {};
    return std::span(peer.out).subspan(kPrefix);
  }

  void send(int64_t process, size_t bytes) override {
    Peer& peer = at(process);
    const auto length = static_cast<uint32_t>(bytes);
    std::memcpy(peer.out.data(), &length, kPrefix);
    peer.to_send = kPrefix + bytes;
    peer.sent = 0;
    flush(peer);
  }

  bool is_flushed() override {
    bool all = true;
    for (Peer& peer : peers_) {
      flush(peer);
      all &= !peer.is_sending();
    }
    return all;
  }

  bool poll(Receiver& receiver) override {
    bool is_busy = false;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const bool was_sending = peers_[i].is_sending();
      flush(peers_[i]);
      is_busy |= was_sending && !peers_[i].is_sending();
      if (peers_[i].socket >= 0 && receive(static_cast<int64_t>(i), receiver)) is_busy = true;
    }
    return is_busy;
  }

  void wait(std::chrono::microseconds limit) override {
    std::vector<pollfd> polled;
    for (const Peer& peer : peers_) polled.push_back({.fd = peer.socket.load(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = wake_, .events = POLLIN, .revents = 0});
    // A room that is made shows late, as nothing is asked of what another thread may be sending.
    constexpr std::chrono::microseconds kMost(1000);
    const auto milliseconds = static_cast<int>((std::min(limit, kMost).count() + 999) / 1000);
    if (::poll(polled.data(), polled.size(), milliseconds) <= 0) return;
    uint64_t count = 0;
    if (polled.back().revents != 0 && ::read(wake_, &count, sizeof(count)) < 0) return;
  }

  void wake() override {
    const uint64_t one = 1;
    if (::write(wake_, &one, sizeof(one)) < 0) return;  // it is awake already
  }

 private:
  static constexpr size_t kPrefix = sizeof(uint32_t);  // the length of a frame
  static constexpr int kFramesAtOnce = 16;             // from one process, before others have their turn

  struct Peer {
    std::atomic<int> socket = -1;  // closed by who polls, seen by who waits
    std::vector<std::byte> out, in;
    size_t to_send = 0, sent = 0, received = 0;
    bool is_sending() const { return sent < to_send; }
  };

  Peer& at(int64_t process) { return peers_[static_cast<size_t>(process)]; }

  // A socket that is broken shows when it is read.
  static void flush(Peer& peer) {
    while (peer.is_sending()) {
      const ssize_t sent = peer.socket < 0 ? -1
                                           : ::send(peer.socket, peer.out.data() + peer.sent, peer.to_send - peer.sent,
                                                    MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && peer.socket >= 0 && (errno == EAGAIN || errno == EINTR)) return;
      peer.sent = sent < 0 ? peer.to_send : peer.sent + static_cast<size_t>(sent);
    }
  }

  // Whether a frame has come, or the end.
  bool receive(int64_t process, Receiver& receiver) {
    Peer& peer = at(process);
    int frames = 0;
    while (frames < kFramesAtOnce) {
      uint32_t length = 0;
      if (peer.received >= kPrefix) std::memcpy(&length, peer.in.data(), kPrefix);
      const size_t wanted = peer.received < kPrefix ? kPrefix : kPrefix + length;
      if (peer.received == wanted) {
        peer.received = 0;
        ++frames;
        receiver.on_frame(process, std::span<const std::byte>(peer.in).subspan(kPrefix, length));
        continue;
      }
      const ssize_t got = ::recv(peer.socket, peer.in.data() + peer.received, wanted - peer.received, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got <= 0) {
        ::close(peer.socket.exchange(-1));
        receiver.on_lost(process, "connection closed");
        return true;
      }
      peer.received += static_cast<size_t>(got);
    }
    return frames > 0;
  }

  const int64_t process_;
  std::vector<Peer> peers_;  // by process
  const int wake_;
};

/// By process.
inline std::vector<std::unique_ptr<collectives::Endpoint>> joined_endpoints(int64_t processes) {
  const auto count = static_cast<size_t>(processes);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      std::array<int, 2> ends = {-1, -1};
      const int made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
      MEGACPP_CHECK(made == 0) << "no sockets";
      sockets[a][b] = ends[0];
      sockets[b][a] = ends[1];
    }
  std::vector<std::unique_ptr<collectives::Endpoint>> endpoints;
  for (size_t process = 0; process < count; ++process)
    endpoints.push_back(std::make_unique<SocketEndpoint>(static_cast<int64_t>(process), sockets[process]));
  return endpoints;
}

}  // namespace megacpp::testing_support
