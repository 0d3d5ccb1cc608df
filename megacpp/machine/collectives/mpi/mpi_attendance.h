// SPDX-License-Identifier: Apache-2.0
// Who of a launch has come to the start of MPI, where every process waits for all others and MPI does not say for whom.
// A process shows itself to those of its machine by the name of a socket, which is gone with it however it ends; what
// happens on other machines, and in containers with a network of their own, is not seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/mpi/mpi_launch.h"

namespace megacpp::collectives {

class MpiAttendance {
 public:
  /// Shows that this process has come, until the object ends. Not where its launcher gives the launch no name.
  explicit MpiAttendance(MpiLaunch launch);
  ~MpiAttendance();
  MpiAttendance(const MpiAttendance&) = delete;
  MpiAttendance& operator=(const MpiAttendance&) = delete;

  /// Sees who is there. By one thread at a time.
  void look();
  /// This process and those that it has ever seen, ascending: they may have given up since, as this one is about to.
  std::vector<int64_t> come() const { return {come_.begin(), come_.end()}; }

 private:
  const MpiLaunch launch_;
  std::set<int64_t> come_;
  int socket_ = -1;  // none: nobody sees this process
};

/// E3102: for whom a process has waited in the start of MPI, as far as it has seen who has come.
base::Error late_error(const MpiLaunch& launch, const std::vector<int64_t>& come, std::chrono::milliseconds waited);

/// Of a call that may never return. Both are called on another thread.
struct StartLimit {
  std::chrono::milliseconds limit{};
  std::function<void()> look = {};     // now and then while it has not returned, and when the limit is over
  std::function<void()> on_late = {};  // then, once
};
void start_within(const StartLimit& limit, const std::function<void()>& start);

}  // namespace megacpp::collectives
