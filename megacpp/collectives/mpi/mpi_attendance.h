// SPDX-License-Identifier: Apache-2.0
// Who of a launch has come to the start of MPI, where every process waits for all others and MPI does not say for whom.
// A process shows itself to those of its machine by the name of a socket, which is gone with it however it ends; what
// happens on other machines, and in containers with a network of their own, is not seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/collectives/mpi/mpi_launch.h"

namespace megacpp::collectives {

class MpiAttendance {
 public:
  /// Shows that this process has come, until the object ends. Not where its launcher gives the launch no name.
  explicit MpiAttendance(MpiLaunch launch);
  ~MpiAttendance();
  MpiAttendance(const MpiAttendance&) = delete;
  MpiAttendance& operator=(const MpiAttendance&) = delete;

  /// This process and those that it sees to have come, ascending.
  std::vector<int64_t> present() const;

 private:
  const MpiLaunch launch_;
  int socket_ = -1;  // none: nobody sees this process
};

/// E3102: for whom a process has waited in the start of MPI, as far as it sees who has come.
base::Error late_error(const MpiLaunch& launch, const std::vector<int64_t>& present, std::chrono::milliseconds waited);

/// Calls `start`, which may never return; then `on_late`, on another thread and once, when the limit is over.
void start_within(std::chrono::milliseconds limit, const std::function<void()>& start,
                  const std::function<void()>& on_late);

}  // namespace megacpp::collectives
