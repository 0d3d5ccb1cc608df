// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_attendance.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "megacpp/core/base/thread.h"

namespace megacpp::collectives {
namespace {

constexpr int kLooks = 8;  // in the time of a limit; processes that give up at the end of it were seen before
constexpr size_t kShownProcesses = 16;  // by number, of those that have not come

// A name without a file (its first byte is zero): the kernel forgets it with the process.
struct SocketName {
  sockaddr_un address = {};
  socklen_t bytes = 0;

  SocketName(const MpiLaunch& launch, int64_t process) {
    const std::string text =
        "megacpp " + std::to_string(::getuid()) + " " + launch.name + " " + std::to_string(process);
    address.sun_family = AF_UNIX;
    const size_t length = std::min(text.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, text.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

int make_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

bool has_come(const MpiLaunch& launch, int64_t process) {
  const int probe = make_socket();
  if (probe < 0) return false;
  const SocketName name(launch, process);
  const bool is_there = ::connect(probe, name.get(), name.bytes) == 0;
  ::close(probe);
  return is_there;
}

// "process 1", "processes 1, 2, 3 and 20 more"
std::string processes_text(const std::vector<int64_t>& processes) {
  std::string text = processes.size() == 1 ? "process" : "processes";
  for (size_t i = 0; i < std::min(processes.size(), kShownProcesses); ++i)
    text += (i == 0 ? " " : ", ") + std::to_string(processes[i]);
  if (processes.size() > kShownProcesses)
    text += " and " + std::to_string(processes.size() - kShownProcesses) + " more";
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  const int64_t whole = time.count() / 1000;
  return whole * 1000 == time.count() ? std::to_string(whole) + " s" : std::to_string(time.count()) + " ms";
}

// Where some are on other hosts, those of this one are all that is known.
std::string absent_text(const MpiLaunch& launch, const std::vector<int64_t>& come) {
  const std::string all = "all " + std::to_string(launch.processes) + " processes of the launch";
  if (launch.name.empty() || launch.processes_here == 0) return all;
  const auto here = std::to_string(launch.processes_here);
  if (launch.processes_here < launch.processes) {
    if (std::ssize(come) >= launch.processes_here)
      return all + ": the " + here + " of this host have come, others on other hosts have not";
    return all + ": of the " + here + " of this host only " + processes_text(come) +
           (come.size() == 1 ? " has come" : " have come");
  }
  std::vector<int64_t> absent;
  for (int64_t process = 0; process < launch.processes; ++process)
    if (!std::ranges::binary_search(come, process)) absent.push_back(process);
  if (absent.empty()) return all + ", which have come: MPI has not joined them";
  return processes_text(absent) + (absent.size() == 1 ? ", which has not come" : ", which have not come");
}

}  // namespace

MpiAttendance::MpiAttendance(MpiLaunch launch) : launch_(std::move(launch)), come_({launch_.process}) {
  if (launch_.name.empty()) return;
  socket_ = make_socket();
  if (socket_ < 0) return;
  const SocketName name(launch_, launch_.process);
  if (::bind(socket_, name.get(), name.bytes) == 0) return;
  ::close(std::exchange(socket_, -1));
}

MpiAttendance::~MpiAttendance() {
  if (socket_ >= 0) ::close(socket_);
}

void MpiAttendance::look() {
  if (launch_.name.empty()) return;
  for (int64_t process = 0; process < launch_.processes; ++process)
    if (!come_.contains(process) && has_come(launch_, process)) come_.insert(process);
}

base::Error late_error(const MpiLaunch& launch, const std::vector<int64_t>& come, std::chrono::milliseconds waited) {
  return {base::Code::E3102,
          {.where = "start of MPI in process " + std::to_string(launch.process) + ", by " + launch.launcher,
           .got = "waited " + seconds_text(waited) + " for " + absent_text(launch, come),
           .wanted = "every process of the launch at the start of the same training",
           .next = "look at what was started in its place: another program, one that has ended, or one that hangs "
                   "before it; raise train.wait_limit if it is only slow"}};
}

void start_within(const StartLimit& limit, const std::function<void()>& start) {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_started = false;  // guarded
  std::thread watch = base::start_thread("the limit on the start of MPI", [&] {
    for (int look = 0; look < kLooks; ++look) {
      std::unique_lock lock(mutex);
      if (ended.wait_for(lock, limit.limit / kLooks, [&has_started] { return has_started; })) return;
      lock.unlock();
      limit.look();
    }
    limit.on_late();
  });
  const auto end_watch = [&] {
    {
      const std::lock_guard lock(mutex);
      has_started = true;
    }
    ended.notify_one();
    watch.join();
  };
  try {
    start();
  } catch (...) {
    end_watch();
    throw;
  }
  end_watch();
}

}  // namespace megacpp::collectives
