// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/hlo_runs.h"

#include <map>
#include <optional>
#include <string_view>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::pjrt {
namespace {

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
  static constexpr size_t kMostParts = 16;                 // of a condition
  static constexpr int64_t kMostTrips = int64_t{1} << 24;  // a larger constant is no number of trips

  const HloProgram& program_;
  std::map<int64_t, size_t> at_;
};

/// How often what an instruction calls runs for each of its own runs.
struct Trips {
  int64_t count = 1;
  bool is_noted = true;  // by the compiler
  bool is_known = true;  // noted, or a bound in the loop's condition
};

Trips trips_of(const HloInstruction& instruction, const Index& index, size_t caller) {
  if (instruction.opcode != "while") return {};
  if (instruction.trip_count && *instruction.trip_count < 0) damaged(instruction, "it runs less than never");
  if (instruction.trip_count) return {.count = *instruction.trip_count};
  const std::optional<int64_t> bound = index.bound(instruction, caller);
  return {.count = bound.value_or(1), .is_noted = false, .is_known = bound.has_value()};
}

/// What one caller adds to the runs of what it calls; never more than kMostRuns, and then it says so.
void add_runs(const HloRuns& caller, const Trips& trips, HloRuns& callee) {
  const bool is_too_often = trips.count > (kMostRuns - callee.count) / caller.count;
  callee.count = is_too_often ? kMostRuns : callee.count + trips.count * caller.count;
  callee.at_least = callee.at_least || caller.at_least || !trips.is_noted || is_too_often;
  callee.is_short = callee.is_short || caller.is_short || !trips.is_known || is_too_often;
}

struct Products {
  double flops = 0;
  bool is_short = false;
};

Products products_of(const HloProgram& program, Loops loops) {
  const std::vector<HloRuns> runs = runs_of(program, loops);
  Products products;
  for (size_t c = 0; c < runs.size(); ++c)
    for (const HloInstruction& instruction : program.computations[c].instructions) {
      products.flops += instruction.flops * static_cast<double>(runs[c].count);
      products.is_short = products.is_short || (instruction.flops > 0 && runs[c].is_short);
    }
  return products;
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
      const Trips trips = loops == Loops::once ? Trips{} : trips_of(instruction, index, c);
      for (const int64_t id : instruction.called) add_runs(runs[c], trips, runs[index.callee(instruction, id, c)]);
    }
  }
  return runs;
}

LoopFactor loop_factor(const HloProgram& program) {
  const Products once = products_of(program, Loops::once), all = products_of(program, Loops::as_they_run);
  if (!(once.flops > 0)) return {};
  return {.factor = all.flops / once.flops, .at_least = all.is_short};
}

}  // namespace megacpp::runtime::pjrt
