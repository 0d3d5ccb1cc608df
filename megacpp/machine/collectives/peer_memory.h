// SPDX-License-Identifier: Apache-2.0
// Memory of other processes of this host, read straight into that of this one: one copy, where a message takes three
// (process_vm_readv of Linux, which MPI libraries call CMA).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace megacpp::collectives {

/// Where the buffers of one part of a call are, in the process that has them.
struct PartAddress {
  uint64_t in = 0;
  uint64_t out = 0;
};

/// A process whose memory this one can read.
struct Peer {
  int64_t process = 0;  // its number in the run
  pid_t pid = 0;
};

/// Its memory can no longer be read: it has ended or ends, mostly.
class PeerGone final : public std::exception {
 public:
  PeerGone(int64_t process, int error);
  int64_t process() const { return process_; }
  /// Else the kernel refuses: it lacks memory, or the buffers are not there.
  bool has_ended() const { return has_ended_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  int64_t process_;
  bool has_ended_;
  std::string what_;
};

/// Copies from one process, as many in one call of the kernel as it takes. Never allocates; PeerGone.
class PeerReads {
 public:
  explicit PeerReads(const Peer& peer) : peer_(peer) {}

  void add(void* to, uint64_t from, int64_t bytes);
  /// Makes those that were added and not yet made.
  void flush();

 private:
  static constexpr size_t kAtOnce = 64;

  const Peer& peer_;
  std::array<iovec, kAtOnce> to_;  // the first count_ of both
  std::array<iovec, kAtOnce> from_;
  size_t count_ = 0;
};

}  // namespace megacpp::collectives
