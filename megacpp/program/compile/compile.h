// SPDX-License-Identifier: Apache-2.0
// The whole compiler: one list of passes that every run goes through, in compile.cpp. Takes a plan and what the
// backend can do; leaves the scheduled programs and the memory plan of every chip. What each pass leaves is timed,
// verified, and can be dumped as text; passes that only optimise can be switched off by name.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/compile/compiled.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::compile {

/// When programs are checked (ops/verify.h): after every pass, so that the first that is wrong names the pass at fault,
/// or once, as the last pass left them, which takes a tenth of the time. That is for estimates, of which a search makes
/// hundreds and a training runs one: `megacpp compile` of the same recipe then names the pass.
enum class Verify : uint8_t { every_pass, result };

struct Options {
  /// Every pass writes what it left there: "01-model.ir", ..., "23-memory.txt".
  std::optional<std::filesystem::path> dump_dir = {};
  /// Optional passes that are switched off, by name, for finding out which one is at fault. E1007 for a name that is
  /// no pass, a pass that cannot be left out, and one that does not run here anyway, with the reason.
  std::vector<std::string> without = {};
  Verify verify = Verify::every_pass;
  /// Called with the name of every pass that has run, for who shows that something happens.
  std::function<void(std::string_view pass)> after_pass = {};
};

/// A training run: micro-steps (forward, backward, gradient accumulation) and update.
Compiled compile_training(const plan::Plan& plan, const schedule::Target& target, const Options& options = {});

/// The micro-steps of a training run that has no pipeline, without the update: what plans need that ask about these
/// alone. The program is that of compile_training().
Compiled compile_micro_steps(const plan::Plan& plan, const schedule::Target& target, const Options& options = {});

/// Forward and gradients of a forward graph, for comparing with a reference: outputs as the graph has them, plus
/// "grad.<name>" for every parameter and every float batch input; in a pipeline gradients are state of these names.
struct GradientRequest {
  model::ForwardModel forward;  // built for `plan`
  std::string cotangent = {};   // names an input that seeds the gradient; empty: the loss, by 1
  plan::Plan plan = {};
};
Compiled compile_gradients(GradientRequest request, const schedule::Target& target, const Options& options = {});

/// A forward graph built for `plan`, which has no pipeline; a step runs it once. Of a decoding graph the state stays
/// from step to step.
Compiled compile_forward(model::ForwardModel forward, const plan::Plan& plan, const schedule::Target& target,
                         const Options& options = {});

/// A line of the list of passes.
struct PassInfo {
  std::string_view name;
  std::string_view does;
  std::string_view needed;  // why it cannot be switched off; empty: it can

  bool is_optional() const { return needed.empty(); }
};
/// In the order in which they run.
std::vector<PassInfo> list_passes();

}  // namespace megacpp::compile
