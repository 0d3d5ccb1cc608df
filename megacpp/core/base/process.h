// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end. Arguments go to it as they stand, through no shell; what it prints, on either
// stream, is read as it comes and kept. A signal that would end this process at once ends the program first.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace megacpp::base {

/// What becomes of what a program prints.
enum class Streams : uint8_t {
  kept,    // both, in ProgramEnd::output
  shared,  // it writes where this process does
};

/// Whose an interrupt from the terminal is while a program runs.
enum class Interrupts : uint8_t {
  program,  // its alone, so that the caller lives to clean up behind it; one such program at a time
  caller,   // for should_stop: the program is in a process group of its own, and any thread may run one
};

/// Programs that a program has started, and has not asked yet how they ended.
enum class Children : uint8_t { none, ended, living };

struct ProgramRun {
  std::vector<std::string> words;                                   // the program, searched on PATH, and its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};  // added to its environment
  Streams streams = Streams::kept;
  Interrupts interrupts = Interrupts::program;
  /// Called about once a second while it runs.
  std::function<void()> on_tick = [] {};
  /// Asked every 20 ms; once it says yes, the program gets the stop signal and is waited for. Where it shares our
  /// streams and has a group of its own, what it leaves in that group then gets the signal too, and is waited for: each
  /// process once, whether a launcher hands signals on or ends by them.
  std::function<bool()> should_stop = [] { return false; };
  int stop_signal = SIGTERM;
  /// Asked about once a second; once it says yes, the program is ended: by SIGTERM, and when that has not helped by
  /// SIGKILL, with its group where it has its own.
  std::function<bool(Children children)> is_overdue = [](Children) { return false; };
  std::chrono::seconds kill_after = std::chrono::seconds(5);  // the SIGTERM
};

struct ProgramEnd {
  int status = 0;           // exit status; 128 + signal when a signal ended it; 127 when it could not be started
  std::string output;       // both streams, in the order written; why it could not be started
  bool was_started = true;  // a program that ran may end with 127 as well
};

ProgramEnd run_program(const ProgramRun& run);

}  // namespace megacpp::base
