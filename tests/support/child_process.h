// SPDX-License-Identifier: Apache-2.0
// A program in a process of its own, up to its end or its time limit.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/error_contract.h"

namespace megacpp::testing_support {

/// `words` begin with the program's path; stdout and stderr go to the files or devices `out` and `err`.
inline pid_t start_process(std::vector<std::string> words, const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0644);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0644);
  posix_spawnattr_t attributes;  // a test that runs in the background has interrupts ignored, and hands that on
  ::posix_spawnattr_init(&attributes);
  sigset_t stops;
  ::sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&stops, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &stops);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn " + words.front());
  return pid;
}

/// How it ended, without its texts; a process at its time limit is killed, and hung.
inline Ending wait_for_process(pid_t pid, std::chrono::seconds time_limit) {
  const auto end = std::chrono::steady_clock::now() + time_limit;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) != pid) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return {.hung = true};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Ending ending;
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
  return ending;
}

/// The system's loader had too little memory or too few files for the program's libraries: it never was megacpp.
inline bool is_not_started(const Ending& ending) {
  constexpr int kLoaderStatus = 127;
  return ending.status == kLoaderStatus &&
         (ending.err.find("error while loading shared libraries") != std::string::npos ||
          ending.err.find("cannot allocate TLS data") != std::string::npos);
}

/// Of the processor, that the process has had; 0 where it has ended.
inline double processor_seconds(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  std::istringstream behind_name(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int field = 3; field < 14; ++field) behind_name >> skipped;
  double user = 0, system = 0;
  behind_name >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Whether it has a handler for the signal, as megacpp has from the first lines of main() on, or has ended.
inline bool handles_signal(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == "SigCgt:" && status >> word) return (std::stoull(word, nullptr, 16) >> (signal - 1) & 1) != 0;
  return true;
}

}  // namespace megacpp::testing_support
