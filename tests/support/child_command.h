// SPDX-License-Identifier: Apache-2.0
// The megacpp program in a process of its own, for what a command does to its process: streams that are devices,
// signals, waiting for ever. The test's program is compiled with MEGACPP_PROGRAM, the path of megacpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/base/file.h"
#include "tests/support/child_process.h"
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

/// Runs the command to its end; the catalog is one of this process, unless the test has named another, and so is the
/// folder of runs.
inline Ending run_child(const ChildCommand& command) {
  static const TemporaryFolder own;
  ::setenv("MEGACPP_CATALOG", (own / "catalog.sqlite").c_str(), 0);
  ::setenv("MEGACPP_RUNS", (own / "runs").c_str(), 0);
  const TemporaryFolder folder;
  const std::string out = command.out.empty() ? (folder / "out").string() : command.out;
  const std::string err = command.err.empty() ? (folder / "err").string() : command.err;
  std::vector<std::string> words = {MEGACPP_PROGRAM};
  words.insert(words.end(), command.words.begin(), command.words.end());
  const pid_t pid = start_process(std::move(words), out, err);
  command.once_started(pid);
  Ending ending = wait_for_process(pid, command.time_limit);
  if (command.out.empty()) {
    ending.out = base::read_file(out);
    for (const std::string& word : command.words) ending.json |= word == "--json";
  }
  if (command.err.empty()) ending.err = base::read_file(err);
  return ending;
}

}  // namespace megacpp::testing_support
