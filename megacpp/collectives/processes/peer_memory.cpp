// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/peer_memory.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <sstream>

namespace megacpp::collectives {
namespace {

// Read by others to see that they read this process and no other that has its number elsewhere.
const uint64_t& token() {
  static const uint64_t number = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return number;
}

// Processes that run on one kernel and see each other as one machine. A network of its own makes a container, or a
// namespace of a test, a host of its own: what is between them is to cross their links.
std::string kernel_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::string identity = boot.empty() ? "unknown" : boot;
  for (const char* const name : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::array<char, 64> text = {};
    const ssize_t length = ::readlink(name, text.data(), text.size() - 1);
    identity += "/" + std::string(text.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  }
  return identity;
}

bool ends_at(const iovec& range, const void* end) {
  return static_cast<const std::byte*>(range.iov_base) + range.iov_len == end;
}

}  // namespace

std::string memory_statement() {
  // Where the kernel lets a process be read by its ancestors alone (Yama), what the launcher started may read as well.
  ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(::getppid()), 0, 0, 0);
  std::ostringstream text;
  text << kernel_identity() << ' ' << ::getpid() << ' ' << reinterpret_cast<uintptr_t>(&token()) << ' ' << token();
  return text.str();
}

std::optional<Peer> find_peer(int64_t process, const std::string& statement) {
  std::istringstream text(statement);
  std::string identity;
  pid_t pid = 0;
  uint64_t address = 0, stated = 0, found = 0;
  if (!(text >> identity >> pid >> address >> stated) || identity != kernel_identity()) return std::nullopt;
  const Peer peer = {.process = process, .pid = pid};
  try {
    PeerReads reads(peer);
    reads.add(&found, address, sizeof(found));
    reads.flush();
  } catch (const PeerGone&) {
    return std::nullopt;
  }
  return found == stated ? std::optional(peer) : std::nullopt;
}

PeerGone::PeerGone(int64_t process, int error)
    : process_(process), what_(std::string("its memory cannot be read: ") + std::strerror(error)) {}

void PeerReads::add(void* to, uint64_t from, int64_t bytes) {
  if (bytes == 0) return;
  const auto length = static_cast<size_t>(bytes);
  if (count_ > 0 && ends_at(to_[count_ - 1], to) && ends_at(from_[count_ - 1], reinterpret_cast<void*>(from))) {
    to_[count_ - 1].iov_len += length;
    from_[count_ - 1].iov_len += length;
    return;
  }
  if (count_ == kAtOnce) flush();
  to_[count_] = {.iov_base = to, .iov_len = length};
  from_[count_] = {.iov_base = reinterpret_cast<void*>(from), .iov_len = length};
  ++count_;
}

void PeerReads::flush() {
  std::span<iovec> to(to_.data(), count_), from(from_.data(), count_);
  count_ = 0;
  while (!to.empty()) {
    const ssize_t copied = ::process_vm_readv(peer_.pid, to.data(), to.size(), from.data(), from.size(), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) throw PeerGone(peer_.process, copied < 0 ? errno : EFAULT);
    // The kernel may stop early, as after 2 GiB: the rest is asked for again.
    auto left = static_cast<size_t>(copied);
    while (!to.empty() && left >= to.front().iov_len) {
      left -= to.front().iov_len;
      to = to.subspan(1);
      from = from.subspan(1);
    }
    if (left == 0) continue;
    for (iovec* const side : {&to.front(), &from.front()}) {
      side->iov_base = static_cast<std::byte*>(side->iov_base) + left;
      side->iov_len -= left;
    }
  }
}

}  // namespace megacpp::collectives
