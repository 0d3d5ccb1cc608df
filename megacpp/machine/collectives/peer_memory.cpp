// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/peer_memory.h"

#include <cerrno>
#include <cstring>
#include <span>

namespace megacpp::collectives {
namespace {

bool ends_at(const iovec& range, const void* end) {
  return static_cast<const std::byte*>(range.iov_base) + range.iov_len == end;
}

}  // namespace

PeerGone::PeerGone(int64_t process, int error)
    : process_(process),
      has_ended_(error == ESRCH),
      what_(std::string("its memory cannot be read: ") + std::strerror(error)) {}

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
