// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/hlo_runs.h"

#include <algorithm>
#include <map>
#include <optional>
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

// What was started and is waited for calls the same computation again in the program's text, not in its run. The TPU
// compiler has fusions for both ends of a collective.
bool only_waits(const HloInstruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  return opcode.ends_with("-done") || opcode.ends_with("-update") ||
         instruction.name.starts_with("async-collective-done");
}

// The computations of a program, by the ids that calls name.
class Index {
 public:
  explicit Index(const HloProgram& program) : program_(program) {
    for (size_t c = 0; c < program.computations.size(); ++c) at_[program.computations[c].id] = c;
  }

  size_t entry() const { return at_.at(program_.entry); }

  /// What is called stands before what calls it.
  size_t callee(const HloInstruction& instruction, int64_t id, size_t caller) const {
    const auto at = at_.find(id);
    if (at == at_.end() || at->second >= caller) damaged(instruction, "it calls what is not there");
    return at->second;
  }

  /// The constant of the one "less than" in a loop's condition; nothing for conditions of other forms.
  std::optional<int64_t> bound(const HloInstruction& loop, size_t caller) const {
    if (loop.called.size() != 2) return std::nullopt;
    std::vector<int64_t> constants;
    int comparisons = 0;
    std::vector<size_t> open = {callee(loop, loop.called[1], caller)};
    for (size_t i = 0; i < open.size(); ++i)  // the comparison may stand in a fusion
      for (const HloInstruction& instruction : program_.computations[open[i]].instructions) {
        if (instruction.constant) constants.push_back(*instruction.constant);
        if (instruction.is_less_than) ++comparisons;
        for (const int64_t id : instruction.called)
          if (open.size() < kMostParts) open.push_back(callee(instruction, id, open[i]));
      }
    const bool is_bound = constants.size() == 1 && comparisons == 1 && constants[0] >= 0 && constants[0] < kMostTrips;
    return is_bound ? std::optional(constants[0]) : std::nullopt;
  }

 private:
  static constexpr size_t kMostParts = 16;          // of a condition
  static constexpr int64_t kMostTrips = 1'000'000;  // a larger constant is no number of trips

  const HloProgram& program_;
  std::map<int64_t, size_t> at_;
};

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
  const Index index(program);
  std::vector<HloRuns> runs(program.computations.size());
  runs[index.entry()].count = 1;
  for (size_t c = runs.size(); c-- > 0;) {
    if (runs[c].count == 0) continue;
    for (const HloInstruction& instruction : program.computations[c].instructions) {
      if (only_waits(instruction)) continue;
      const bool is_loop = instruction.opcode == "while";
      int64_t trips = 1;
      if (is_loop && loops == Loops::as_they_run)
        trips = instruction.trip_count ? *instruction.trip_count : index.bound(instruction, c).value_or(1);
      if (trips < 0 || trips > kMostRuns / runs[c].count) damaged(instruction, "it runs too often");
      for (const int64_t id : instruction.called) {
        HloRuns& callee = runs[index.callee(instruction, id, c)];
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
