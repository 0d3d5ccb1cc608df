// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/shell_run.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/child_process.h"

namespace megacpp::faults {
namespace {

using Clock = std::chrono::steady_clock;

// Whatever is there: a limit on open files or a signal may have cut it short.
std::string content(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

testing_support::Ending run_shell(const ShellRun& run, const std::function<void(pid_t)>& once_started) {
  const std::string out = run.folder + "/" + run.name + ".out", err = run.folder + "/" + run.name + ".err";
  for (const std::string& left : {out, err}) std::filesystem::remove(left);  // of a line before
  const pid_t pid = testing_support::start_process({"/bin/sh", "-c", run.line}, out, err);
  once_started(pid);
  testing_support::Ending ending = testing_support::wait_for_process(pid, run.time_limit);
  ending.out = content(out);
  ending.err = content(err);
  return ending;
}

bool has_ended_within(pid_t pid, std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  for (;;) {
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &state, WEXITED | WNOHANG | WNOWAIT) != 0 || state.si_pid != 0)
      return true;
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, std::chrono::milliseconds(2)));
  }
}

void wait_for_main(pid_t pid) {
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end && !testing_support::handles_signal(pid, SIGTERM))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace megacpp::faults
