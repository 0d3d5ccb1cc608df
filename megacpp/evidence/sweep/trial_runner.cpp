// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/trial_runner.h"

#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "megacpp/core/base/path.h"
#include "megacpp/core/base/process.h"

namespace megacpp::sweep {

TrialRunner program_runner(std::string program, std::function<bool()> should_stop) {
  return [program = std::move(program), should_stop = std::move(should_stop)](const TrialRequest& request) {
    if (should_stop()) return TrialEnd{.status = base::kInterruptedStatus};
    base::ProgramRun run{.words = {program, "train", request.recipe.string(), "--run-dir", request.run.string(),
                                   "--set", "ladder.rungs=[]"},
                         .should_stop = should_stop};
    for (const std::string& override : request.overrides) {
      run.words.push_back("--set");
      run.words.push_back(override);
    }
    const base::ProgramEnd end = base::run_program(run);
    return TrialEnd{.status = end.status, .error = end.status == 0 ? "" : error_line(end.output)};
  };
}

std::string this_program() { return base::canonical("/proc/self/exe").string(); }

base::Error error_of(const std::vector<std::string>& errors, base::Problem problem) {
  constexpr size_t kCodeLength = 5;  // "E1402"
  std::optional<base::Code> gravest;
  for (const std::string& error : errors)
    if (const auto code = base::code_named(error.substr(0, kCodeLength)))
      if (!gravest || base::is_graver(*code, *gravest)) gravest = code;
  return {gravest.value_or(base::Code::E3101), std::move(problem)};
}

std::string error_line(const std::string& output) {
  constexpr std::string_view kError = "error ", kGot = "  got:    ";
  std::istringstream stream(output);
  std::string title, got, last;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("error E")) title = line.substr(kError.size());
    if (!title.empty() && got.empty() && line.starts_with(kGot)) got = line.substr(kGot.size());
  }
  if (title.empty()) return last;
  return got.empty() ? title : title + ": " + got;
}

}  // namespace megacpp::sweep
