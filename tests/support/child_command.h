// SPDX-License-Identifier: Apache-2.0
// The megacpp program in a process of its own, for what a command does to its process: streams that are devices,
// signals, waiting for ever. The test's program is compiled with MEGACPP_PROGRAM, the path of megacpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/core/base/file.h"
#include "tests/support/child_process.h"
#include "tests/support/expect_contract.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {

struct ChildCommand {
  std::vector<std::string> words;
  std::string out = {};     // where stdout goes, a file or a device; empty: into the ending
  std::string err = {};     // the same of stderr; what is in a file is in the ending too
  std::string before = {};  // shell in front of the command: "ulimit -f 64;"
  std::string after = {};   // shell behind it: ">&-" closes stdout
  std::chrono::seconds time_limit = std::chrono::seconds(120);
  std::function<void(pid_t)> once_started = [](pid_t) {};
  bool may_be_killed = false;  // by once_started, with SIGKILL
};

/// The words of the process: megacpp's own, or a shell that becomes megacpp.
inline std::vector<std::string> process_words(const ChildCommand& command) {
  std::vector<std::string> words = {MEGACPP_PROGRAM};
  words.insert(words.end(), command.words.begin(), command.words.end());
  if (command.before.empty() && command.after.empty()) return words;
  const std::string line = command.before + " exec \"$@\" " + command.after;
  words.insert(words.begin(), {"/bin/sh", "-c", line, "sh"});
  return words;
}

/// Runs the command to its end, which the error contract judges; the catalog is one of this process, unless the test
/// has named another, and so is the folder of runs. A command that was not started at all (child_process.h) is not
/// judged.
inline Ending run_child(const ChildCommand& command) {
  static const TemporaryFolder own;
  ::setenv("MEGACPP_CATALOG", (own / "catalog.sqlite").c_str(), 0);
  ::setenv("MEGACPP_RUNS", (own / "runs").c_str(), 0);
  const TemporaryFolder folder;
  const std::string out = command.out.empty() ? (folder / "out").string() : command.out;
  const std::string err = command.err.empty() ? (folder / "err").string() : command.err;
  const pid_t pid = start_process(process_words(command), out, err);
  command.once_started(pid);
  Ending ending = wait_for_process(pid, command.time_limit);
  if (std::filesystem::is_regular_file(out)) {
    ending.out = base::read_file(out);
    ending.json = wants_json(command.words);
  }
  ending.err_unseen = !std::filesystem::is_regular_file(err);
  if (!ending.err_unseen) ending.err = base::read_file(err);
  const bool was_killed = command.may_be_killed && ending.signal == SIGKILL;
  if (!was_killed && !is_not_started(ending)) expect_contract(command.words, ending);
  return ending;
}

}  // namespace megacpp::testing_support
