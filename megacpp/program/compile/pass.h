// SPDX-License-Identifier: Apache-2.0
// A pass of the compiler as a record, and what is done around each: whether it runs, how long it takes, whether what it
// leaves is well-formed, and its dump. Passes do none of this themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/compile/compilation.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/verify.h"

namespace megacpp::compile {

struct Pass {
  std::string_view name;  // "fuse"
  std::string_view does;  // one line
  /// Why runs need it, for one that cannot be switched off; empty: it is optional.
  std::string_view needed = {};
  /// Whether a run has a use for it; none: every run has.
  std::function<base::Decision(const Compilation&)> applies = {};
  std::function<void(Compilation&)> run;
  /// For one that holds bytes in order to take less time: whether it will, asked before it runs. The rest of the list
  /// then runs with and without what it did, and what it did stays only where no chip needs more for it, but for
  /// most_growth().
  std::function<bool(const Compilation&)> holds_more = {};
  /// What holds of programs afterwards; none: what held before.
  std::optional<ops::Form> leaves = {};
  /// What to dump instead of programs, for a pass that leaves these as they are.
  std::function<std::string(const Compilation&)> text = {};
};

/// By how much the bytes that a chip has alive at once, `bytes` without it, may grow for a pass that holds more:
/// alignment, and tensors that are too small to matter.
int64_t most_growth(int64_t bytes);

/// A pass that rewrites each program by itself.
std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite);

/// Runs the list in order, without those that do not apply or are switched off. E1007 as Options::without says. The
/// time of what was run and dropped is that of the pass which it was run for. Dumps are of what stays, and the list's
/// only ones in their folder.
void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run);

}  // namespace megacpp::compile
