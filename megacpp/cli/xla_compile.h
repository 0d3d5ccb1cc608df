// SPDX-License-Identifier: Apache-2.0
// A training step compiled by XLA to see what becomes of it, on the devices of a plugin or ahead of time for a slice
// that is not here, with our own numbers beside the compiler's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/cli/collective_comparison.h"
#include "megacpp/core/base/error.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/machine/plugins/flags.h"
#include "megacpp/machine/plugins/oom_message.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/xla/pjrt/compile_report.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/recipe.h"

namespace CLI {
class App;
}

namespace megacpp::cli {

inline constexpr int64_t kLongestWait = int64_t{7} * 24 * 3600;  // seconds that --time-limit may name

struct XlaFlags {
  std::string target;         // topology to compile for; empty: the plugin's own devices
  int64_t time_limit = 1800;  // seconds that may take
};

/// `--target` and `--time-limit`.
void declare_xla_flags(CLI::App& app, XlaFlags& flags);

/// Whether what XLA makes of a step can be shown: its backend hands it over as StableHLO.
bool is_compiled_by_xla(const recipe::Recipe& recipe);

/// What decides about a plan for that hardware that is close: "megacpp compile with --backend xla .. decides".
std::string deciding_command(const hw::Slice& slice, std::string_view backend);

/// E1007 for a target where the recipe has another backend.
void require_xla_for(const XlaFlags& flags, const recipe::Recipe& recipe);

/// What was chosen, before anything is compiled.
struct XlaChoice {
  XlaFlags flags;
  runtime::plugins::PluginKind kind;
  std::filesystem::path plugin;
  std::optional<hw::Slice> tpu;  // where the target is one
  runtime::plugins::ResolvedFlags xla_flags;
};

/// E1501 no plugin, E1504 another number of chips than the target has, E1506 a
/// target that is no TPU's, E1507 flags, E1601 and E1602 no such slice. A target takes the plugin tpu unless the recipe
/// names another.
XlaChoice choose_xla(const plan::PlannedRecipe& planned, const XlaFlags& flags);

/// The step with our own collectives, whatever xla.placement says: what XLA's are compared with. Dumped where it
/// is what XLA gets.
compile::Compiled compile_our_placement(const plan::PlannedRecipe& planned, const compile::Options& options = {});

struct XlaCompilation {
  XlaChoice choice;
  int64_t argument_bytes = 0;  // planned, of a chip; for a TPU with the padding of its tiles
  double flops = 0;            // ours, of a chip, without the update
  double emission_seconds = 0;
  size_t text_bytes = 0;  // of the module
  runtime::pjrt::CompileReport report;
  std::vector<CollectiveComparison> collectives;  // none where XLA's were not read
  std::optional<runtime::plugins::OomMessage> out_of_memory;
  /// The error to end with, once what is known was printed: it does not fit, or the plugin failed.
  std::optional<base::Error> failure;
};

/// Reads what the plugin said where the program does not fit into numbers and the error to end with. `subject`
/// is fit::subject_text's.
void read_out_of_memory(XlaCompilation& result, const std::string& subject);

/// `ours` is compile_our_placement's. `options.dump_dir` gets what passes left of what is compiled, the module's text
/// last. E1505 for what XLA cannot run.
XlaCompilation compile_on_xla(const XlaChoice& choice, const plan::PlannedRecipe& planned,
                              const compile::Compiled& ours, const compile::Options& options = {});

/// That the rules by which plans for the slice's chip know its compiler are of another build than the one that was
/// asked; empty where they are of the same, or where one of the two does not say.
std::string other_compiler(const XlaCompilation& compilation);

/// What the compiler of a slice said beside our plan for it. The peak of a program that fits corrects other plans of
/// the lane.
void remember_compilation(catalog::Catalog& catalog, const fit::Estimate& estimate, const XlaCompilation& compilation);

}  // namespace megacpp::cli
