// SPDX-License-Identifier: Apache-2.0
// Processes by chip, and their hosts, for messages to users. The engine's lock is held by whoever looks or writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/failure.h"

namespace megacpp::collectives {

struct ProcessMap {
  int64_t own = 0;                      // this process's number
  int64_t count = 1;                    // of processes
  std::vector<int64_t> owners = {};     // the process of every chip
  std::vector<std::string> hosts = {};  // by process; empty before they are known

  int64_t owner(int64_t chip) const { return owners[static_cast<size_t>(chip)]; }
  std::vector<int64_t> chips_of(int64_t process) const {
    std::vector<int64_t> chips;
    for (size_t chip = 0; chip < owners.size(); ++chip)
      if (owners[chip] == process) chips.push_back(static_cast<int64_t>(chip));
    return chips;
  }
  /// "process 1 on node7".
  std::string place(int64_t process) const {
    const std::string host = hosts.empty() ? "" : " on " + hosts[static_cast<size_t>(process)];
    return "process " + std::to_string(process) + host;
  }
  /// "process 1 on node7 (chips 2, 3)".
  std::string name_of(int64_t process) const { return place(process) + " (" + chips_text(chips_of(process)) + ")"; }
};

}  // namespace megacpp::collectives
