// SPDX-License-Identifier: Apache-2.0
// The megacpp program in a process of its own, for what a command does to its process: streams that are devices,
// signals, waiting for ever. The test's program is compiled with MEGACPP_PROGRAM, the path of megacpp.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/base/file.h"
#include "tests/support/error_contract.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {

struct ChildCommand {
  std::vector<std::string> words;
  std::string out = {};  // where stdout goes, a file or a device; empty: into the ending
  std::string err = {};
  std::chrono::seconds time_limit = std::chrono::seconds(120);
  std::function<void(pid_t)> once_started = [](pid_t) {};
};

namespace child_command {

inline pid_t start(const ChildCommand& command, const std::string& out, const std::string& err) {
  std::vector<std::string> words = {MEGACPP_PROGRAM};
  words.insert(words.end(), command.words.begin(), command.words.end());
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
  if (error != 0)
    throw std::filesystem::filesystem_error("posix_spawn", argv[0], std::error_code(error, std::generic_category()));
  return pid;
}

/// The status by waitpid(), or nothing where the process had to be killed at its time limit.
inline std::optional<int> wait_for(pid_t pid, std::chrono::seconds time_limit) {
  const auto end = std::chrono::steady_clock::now() + time_limit;
  int status = 0;
  for (;;) {
    if (::waitpid(pid, &status, WNOHANG) == pid) return status;
    if (std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return std::nullopt;
}

}  // namespace child_command

/// Runs the command to its end; the catalog is one of this process, unless the test has named another.
inline Ending run_child(const ChildCommand& command) {
  static const TemporaryFolder catalog;
  ::setenv("MEGACPP_CATALOG", (catalog / "catalog.sqlite").c_str(), 0);
  const TemporaryFolder folder;
  const std::string out = command.out.empty() ? (folder / "out").string() : command.out;
  const std::string err = command.err.empty() ? (folder / "err").string() : command.err;
  const pid_t pid = child_command::start(command, out, err);
  command.once_started(pid);
  const std::optional<int> status = child_command::wait_for(pid, command.time_limit);
  Ending ending{.hung = !status.has_value()};
  if (status && WIFSIGNALED(*status)) ending.signal = WTERMSIG(*status);
  if (status && WIFEXITED(*status)) ending.status = WEXITSTATUS(*status);
  if (command.out.empty()) {
    ending.out = base::read_file(out);
    for (const std::string& word : command.words) ending.json |= word == "--json";
  }
  if (command.err.empty()) ending.err = base::read_file(err);
  return ending;
}

}  // namespace megacpp::testing_support
