// SPDX-License-Identifier: Apache-2.0
// From a recipe that does not fit to one that does: rungs in the order of the recipe's policy, every offer estimated
// before anything is paid for. A rung that cannot help is skipped with its reason; the others are tried to their end,
// and what helps but not enough stays taken while the next is tried. What saves no bytes is not taken. One rung may
// only help once another has: they are gone through again as long as that changes anything, those that were skipped
// too. At the end stands a plan that fits, or the least memory that all rungs together lead to, helpful or not, with
// no more changes than that takes. What the recipe leaves to planning (train.recompute: auto) is decided anew for every
// plan, below the ceiling.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/rungs.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::fit {

enum class Verdict : uint8_t { fits, close, not_enough, skipped, refused };
/// "fits", "close" as FitVerdict has it, "not enough", "skipped", "refused"
std::string_view verdict_name(Verdict verdict);

struct Attempt {
  size_t rung = 0;  // from 1, in the order of the policy
  std::string name;
  plan::Changes changes;  // none where the rung was skipped whole
  Verdict verdict = Verdict::skipped;
  std::string reason;
  int64_t needed = 0;            // bytes of the worst chip with it; 0: not tried
  std::optional<int64_t> limit;  // bytes it must not exceed; absent: none is known
  bool changes_experiment = false;
};

struct LadderPath {
  std::vector<Attempt> attempts;
  std::optional<Estimate> found;  // fits or is close
  plan::Changes changes;          // all that were taken, with levels of recompute that only the ceiling explains
  size_t rung = 0;                // of the last one taken; beyond the policy's: nothing fits
  bool changes_experiment = false;
  int64_t least_needed = 0;  // bytes of the worst chip, the frontier
  plan::Changes least_changes;
};

/// Below what failed, of a plan that needs `needed` bytes. Where the backend says in all what it wanted and had, our
/// number is scaled by how far it was off; where it speaks of one allocation, that much less is requested.
Ceiling ceiling_below(int64_t needed, const memory::OomFacts& facts);

using MakeEstimate = std::function<Estimate(const recipe::Recipe&, const Ceiling&)>;

/// `requested` does not fit, or failed at `ceiling`.
LadderPath walk_ladder(const Estimate& requested, const MakeEstimate& make_estimate, const Ceiling& ceiling = {});

/// "train.batch=2 train.micro_steps=4"
std::string to_text(const plan::Changes& changes);

/// "rung 1 batch      not enough  train.batch=4 train.micro_steps=2: 1.00 GiB of 512.00 MiB"
std::string to_text(const Attempt& attempt);
/// A line for each attempt, and where it ended.
std::string to_text(const LadderPath& path);
/// "nothing fits; the least is 21.43 MiB, with train.batch=1 train.micro_steps=8, which runs where a chip has 22471234
/// bytes"
std::string end_text(const LadderPath& path);
/// The error of a plan that does not fit, offering the least that would run where a chip had as much.
memory::OutOfMemory offering_least(const memory::OutOfMemory& misfit, const recipe::Recipe& requested,
                                   const LadderPath& path);
/// "train.batch=4 (was 8), train.micro_steps=2 (was 1)"
std::string changed_text(const recipe::Recipe& requested, const plan::Changes& changes);

}  // namespace megacpp::fit
