// SPDX-License-Identifier: Apache-2.0
// Runs trainings as programs of their own, one after the other: none inherits memory, caches or a failure from another.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"

namespace megacpp::sweep {

/// One training: a recipe with overrides, in a run directory that is not there yet.
struct TrialRequest {
  std::filesystem::path recipe;
  std::vector<std::string> overrides;  // "key=value"
  std::filesystem::path run;
};

struct TrialEnd {
  int status = 0;          // of `megacpp train`
  std::string error = {};  // "E1402 heads or groups cannot be split: ..." where it failed
};

using TrialRunner = std::function<TrialEnd(const TrialRequest&)>;

/// What runs a trial as `program train ...`; `should_stop` is asked all the time and ends it in good order. The
/// ladder is off: it would change what is to be held.
TrialRunner program_runner(std::string program, std::function<bool()> should_stop);

/// The file of the program that runs now.
std::string this_program();

/// The error of a command whose trainings have failed; `errors` as TrialEnd has them. Its code is the gravest of
/// theirs, E3101 where none has one.
base::Error error_of(const std::vector<std::string>& errors, base::Problem problem);

/// Of what a failed command printed: its error's code, title and what was got, on one line; its last line where there
/// is no error.
std::string error_line(const std::string& output);

}  // namespace megacpp::sweep
