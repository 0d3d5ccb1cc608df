// SPDX-License-Identifier: Apache-2.0
// One record per backend: everything that commands, planning and training must know of it. To add one: a file that
// makes its record, one line in backend_list.inc; kernels or a compiler of its own are its own matter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/base/decision.h"
#include "megacpp/collectives/transport.h"
#include "megacpp/compile/compile.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/recipe/ignored_keys.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/runtime/load_options.h"
#include "megacpp/schedule/target.h"

namespace megacpp::runtime {

struct Backend {
  std::string name;  // as the recipe's key `backend` has it
  std::string doc;   // a sentence
  /// What the compiler must know of it, for programs of a recipe on a mesh. E1505 where this build cannot run it.
  std::function<schedule::Target(const recipe::Recipe&, const ir::Mesh&)> target;
  /// What estimates are compiled for, on so many chips of this machine: which ops stay whole, with their scratch
  /// memory and what the transport needs.
  std::function<schedule::Target(const recipe::Recipe&, int64_t chips, const collectives::Transport&)> estimate_target;
  /// Whether target() is estimate_target(): then the programs of an estimate for this machine are those that run.
  bool runs_estimates = true;
  /// Loads what was compiled for target(); only the recipe's section about this backend is read. `compiled` must
  /// outlive the executable. memory::OutOfMemory when it does not fit; E1505 where this build cannot run it.
  std::function<std::unique_ptr<Executable>(const recipe::Recipe&, const compile::Compiled&, const LoadOptions&)> load;
  /// Ways in which its chips exchange tensors; empty: its compiler's own.
  std::vector<std::string> transports = {};
  /// Whether it runs one node after the other, and so can check values, profile ops and trace. One that does not runs
  /// a step as one program.
  bool runs_node_by_node = true;
  /// What of a recipe it cannot run.
  std::function<base::Decision(const recipe::Recipe&)> runs;
  /// Keys that its programs and runs do not depend on. Estimates may: they are made by our own passes.
  std::vector<recipe::IgnoredKey> ignores = {};
  /// What decides how its programs compute, beside our own sources: versions of plugins. Runs are comparable only with
  /// the same. E1501 and the like where what the recipe names is not there.
  std::function<std::string(const recipe::Recipe&)> identity;
};

/// In the order of backend_list.inc.
const std::vector<Backend>& all_backends();

/// E1003 for a name that is none, with those there are.
const Backend& backend_named(const std::string& name);

/// recipe.train.threads, or all cores when it is 0.
int threads_for(const recipe::Recipe& recipe);

/// What a recipe says of loading: threads, waits, limits and faults of its chips.
LoadOptions load_options(const recipe::Recipe& recipe, int64_t chips);

/// With the backend that the recipe names. A fault that is asked for while compiling is raised here, on every backend;
/// E1505 with the reason for what the backend cannot run.
schedule::Target target_for(const recipe::Recipe& recipe, const ir::Mesh& mesh);
std::unique_ptr<Executable> load_for(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                     const LoadOptions& options);
std::unique_ptr<Executable> load_on(const Backend& backend, const recipe::Recipe& recipe,
                                    const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace megacpp::runtime
