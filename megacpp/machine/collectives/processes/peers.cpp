// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/peers.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

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

}  // namespace

std::unique_ptr<ProgressFlags> make_own_flags() { return ProgressFlags::make(token()); }

bool needs_leave_to_be_read(const std::string& ptrace_scope, pid_t launcher) {
  return ptrace_scope == "1" && launcher > 1;
}

std::string memory_statement(const ProgressFlags& flags) {
  std::string ptrace_scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> ptrace_scope;
  if (const pid_t launcher = ::getppid(); needs_leave_to_be_read(ptrace_scope, launcher))
    ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(launcher), 0, 0, 0);
  std::ostringstream text;
  text << kernel_identity() << ' ' << ::getpid() << ' ' << reinterpret_cast<uintptr_t>(&token()) << ' ' << token()
       << ' ' << flags.file();
  return text.str();
}

std::optional<Neighbour> find_neighbour(int64_t process, const std::string& statement) {
  std::istringstream text(statement);
  std::string identity;
  pid_t pid = 0;
  uint64_t address = 0, stated = 0, found = 0;
  int file = -1;
  if (!(text >> identity >> pid >> address >> stated >> file) || identity != kernel_identity()) return std::nullopt;
  const Peer peer = {.process = process, .pid = pid};
  try {
    PeerReads reads(peer);
    reads.add(&found, address, sizeof(found));
    reads.flush();
  } catch (const PeerGone&) {
    return std::nullopt;
  }
  std::shared_ptr<const PeerFlags> flags = PeerFlags::open(pid, file, stated);
  if (found != stated || flags == nullptr) return std::nullopt;
  return Neighbour{.peer = peer, .flags = std::move(flags)};
}

}  // namespace megacpp::collectives
