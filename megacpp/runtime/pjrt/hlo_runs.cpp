// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/hlo_runs.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "megacpp/base/error.h"

namespace megacpp::runtime::pjrt {
namespace {

constexpr int64_t kMostRuns = int64_t{1} << 30;

[[noreturn]] void damaged(const HloInstruction& instruction, const std::string& reason) {
  base::raise(base::Code::E3201, {.where = "the compiled program, " + instruction.name,
                                  .got = reason,
                                  .wanted = "a program as XLA writes it",
                                  .next = "compile again; if it stays, try another version of the plugin"});
}

// What was started and is waited for calls the same computation again in the program's text, not in its run.
bool only_waits(std::string_view opcode) { return opcode.ends_with("-done") || opcode.ends_with("-update"); }

double products_of(const HloProgram& program, Loops loops) {
  const std::vector<HloRuns> runs = runs_of(program, loops);
  double flops = 0;
  for (size_t c = 0; c < runs.size(); ++c)
    for (const HloInstruction& instruction : program.computations[c].instructions)
      flops += instruction.flops * static_cast<double>(runs[c].count);
  return flops;
}

}  // namespace

// What is called stands before what calls it, so from the end on every caller is known when a computation's turn comes.
std::vector<HloRuns> runs_of(const HloProgram& program, Loops loops) {
  std::map<int64_t, size_t> index;
  for (size_t c = 0; c < program.computations.size(); ++c) index[program.computations[c].id] = c;
  std::vector<HloRuns> runs(program.computations.size());
  runs.at(index.at(program.entry)).count = 1;
  for (size_t c = runs.size(); c-- > 0;) {
    if (runs[c].count == 0) continue;
    for (const HloInstruction& instruction : program.computations[c].instructions) {
      if (only_waits(instruction.opcode)) continue;
      const bool is_loop = instruction.opcode == "while";
      const int64_t trips = is_loop && loops == Loops::as_they_run ? instruction.trip_count.value_or(1) : 1;
      if (trips < 0 || trips > kMostRuns / runs[c].count) damaged(instruction, "it runs too often");
      for (const int64_t id : instruction.called) {
        const auto at = index.find(id);
        if (at == index.end() || at->second >= c) damaged(instruction, "it calls what is not there");
        HloRuns& callee = runs[at->second];
        callee.count = std::min(kMostRuns, callee.count + trips * runs[c].count);
        callee.at_least = callee.at_least || runs[c].at_least || (is_loop && !instruction.trip_count);
      }
    }
  }
  return runs;
}

double loop_factor(const HloProgram& program) {
  const double once = products_of(program, Loops::once);
  return once > 0 ? products_of(program, Loops::as_they_run) / once : 1;
}

}  // namespace megacpp::runtime::pjrt
