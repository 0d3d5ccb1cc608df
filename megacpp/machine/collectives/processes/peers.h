// SPDX-License-Identifier: Apache-2.0
// Which processes of a run read each other's memory: those of one host, where its kernel lets them. Who may not be read
// (another container or user, a kernel that forbids it) is found out when processes meet, and is sent to instead.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "megacpp/machine/collectives/peer_memory.h"
#include "megacpp/machine/collectives/processes/progress_flags.h"

namespace megacpp::collectives {

/// A process of this host: chips here read its buffers, and its chips those here.
struct Neighbour {
  Peer peer;
  std::shared_ptr<const PeerFlags> flags;
};

/// Null where this process cannot be read by others.
std::unique_ptr<ProgressFlags> make_own_flags();
/// Whether this process must let what its launcher has started read it: where kernel.yama.ptrace_scope lets ancestors
/// alone. Not where that is process 1, since the launcher has ended or is the first of a container: all descend of it.
bool needs_leave_to_be_read(const std::string& ptrace_scope, pid_t launcher);
/// What others need to read this process: it is told to all of them, and gives that leave.
std::string memory_statement(const ProgressFlags& flags);
/// Whether the process with this number can be read: a number in its memory is compared with what it states.
std::optional<Neighbour> find_neighbour(int64_t process, const std::string& statement);

}  // namespace megacpp::collectives
