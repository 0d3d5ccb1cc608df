// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/shell_run.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

namespace megacpp::faults {
namespace {

using Clock = std::chrono::steady_clock;

pid_t start(const ShellRun& run, const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawnattr_t attributes;  // who runs in the background has interrupts ignored, and would hand that on
  ::posix_spawnattr_init(&attributes);
  sigset_t stops;
  ::sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&stops, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &stops);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::string shell = "/bin/sh", flag = "-c", line = run.line;
  char* const argv[] = {shell.data(), flag.data(), line.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  return pid;
}

std::optional<int> wait_for(pid_t pid, std::chrono::seconds time_limit) {
  const auto end = Clock::now() + time_limit;
  int status = 0;
  while (Clock::now() < end) {
    if (::waitpid(pid, &status, WNOHANG) == pid) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return std::nullopt;
}

// Whatever is there: a limit on open files or a signal may have cut it short.
std::string content(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

bool handles_term(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::string label = "SigCgt:";
  for (std::string word; status >> word;)
    if (word == label && status >> word) return (std::stoull(word, nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  return true;  // it has ended
}

}  // namespace

testing_support::Ending run_shell(const ShellRun& run, const std::function<void(pid_t)>& once_started) {
  const std::string out = run.folder + "/" + run.name + ".out", err = run.folder + "/" + run.name + ".err";
  const pid_t pid = start(run, out, err);
  once_started(pid);
  const std::optional<int> status = wait_for(pid, run.time_limit);
  testing_support::Ending ending{.hung = !status.has_value(), .out = content(out), .err = content(err)};
  if (status && WIFSIGNALED(*status)) ending.signal = WTERMSIG(*status);
  if (status && WIFEXITED(*status)) ending.status = WEXITSTATUS(*status);
  return ending;
}

void wait_for_main(pid_t pid) {
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end && !handles_term(pid)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace megacpp::faults
