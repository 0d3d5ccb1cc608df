// SPDX-License-Identifier: Apache-2.0
// Two sides of runs against each other: a result only where they differ in one thing and every run may be compared. The
// same runs on both sides are compared too, and nothing should be found. What is compared is the time that a token
// takes, by the samples of the steady windows (stats/effect.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/stats/effect.h"
#include "megacpp/evidence/compare/differences.h"
#include "megacpp/evidence/compare/memory_moves.h"
#include "megacpp/evidence/compare/time_moves.h"
#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

/// Why one run says nothing: "run nam52: The run was interrupted after 14 of 150 steps."
struct Objection {
  std::string run;
  std::string sentence;
  std::string next = {};  // step that helps: "let it make all its steps"
};

struct Comparison {
  std::vector<std::string> baseline_runs, other_runs;
  std::string baseline_family = {}, other_family = {};  // dense, sparse, hybrid
  std::string shape = {};  // of the baseline: "8 x 256 tokens a micro-step, 1 of them, of nam56r-tiny on host:2"
  Differences differences = {};
  std::vector<Change> among_repeats = {};  // in what runs of one side differ: there should be nothing
  std::vector<Objection> objections = {};
  std::optional<stats::Effect> effect = {};  // of seconds a token; absent where nothing may be said
  std::optional<TimeMoves> time = {};
  std::optional<MemoryMoves> memory = {};
  double baseline_tokens_per_second = 0;
  double other_tokens_per_second = 0;
  /// Steps that each run should have (train.steps), for kSoughtChange of stats/effect.h to be found; 0: not known.
  int64_t recommended_steps = 0;

  bool is_confounded() const { return differences.is_confounded() || !among_repeats.empty(); }
};

/// Both sides have a receipt at least. `confidence` is what the effect is to have, as one of several comparisons.
Comparison compare(Receipts baseline, Receipts other, double confidence = stats::kConfidence);

/// E4001 where the sides differ in several things, E4002 where a run may not be compared or is too short.
void require_result(const Comparison& comparison);

/// "b is 5.2 % slower than a (+3.9 % to +6.6 % time a token at 95 % confidence)", "no difference found ...", "too short
/// to say ...".
std::string verdict_text(const Comparison& comparison);

}  // namespace megacpp::compare
