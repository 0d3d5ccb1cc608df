// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end. Arguments go to it as they stand, through no shell; what it prints, on either
// stream, is read as it comes and kept. While it runs, an interrupt from the terminal is the program's alone, so that
// the caller lives to clean up behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace megacpp::base {

/// What becomes of what a program prints.
enum class Streams : uint8_t {
  kept,    // both, in ProgramEnd::output
  shared,  // it writes where this process does; interrupts from the terminal are then the caller's, for should_stop
};

struct ProgramRun {
  std::vector<std::string> words;                                   // the program, searched on PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};  // added to its environment
  Streams streams = Streams::kept;
  /// Called about once a second while it runs.
  std::function<void()> on_tick = [] {};
  /// Asked as often; once it says yes, the program gets a SIGTERM and is waited for.
  std::function<bool()> should_stop = [] { return false; };
};

struct ProgramEnd {
  int status = 0;      // exit status; 128 + signal when a signal ended it; 127 when it could not be started
  std::string output;  // both streams, in the order written; of shared ones why it could not be started
};

ProgramEnd run_program(const ProgramRun& run);

}  // namespace megacpp::base
