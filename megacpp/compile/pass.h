// SPDX-License-Identifier: Apache-2.0
// A pass of the compiler as a record, and what is done around each: whether it runs, how long it takes, whether what it
// leaves is well-formed, and its dump. Passes do none of this themselves.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/base/decision.h"
#include "megacpp/compile/compilation.h"
#include "megacpp/compile/compile.h"
#include "megacpp/ops/verify.h"

namespace megacpp::compile {

struct Pass {
  std::string_view name;  // "fuse"
  std::string_view does;  // one line
  /// Why runs need it, for one that cannot be switched off; empty: it is optional.
  std::string_view needed = {};
  /// Whether a run has a use for it; none: every run has.
  std::function<base::Decision(const Compilation&)> applies = {};
  std::function<void(Compilation&)> run;
  /// What holds of programs afterwards; none: what held before.
  std::optional<ops::Form> leaves = {};
  /// What to dump instead of programs, for a pass that leaves these as they are.
  std::function<std::string(const Compilation&)> text = {};
};

/// A pass that rewrites each program by itself.
std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite);

/// Runs the list in order, without those that do not apply or are switched off. E1007 as Options::without says.
void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run);

}  // namespace megacpp::compile
