// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/optim/optimizer.h"
#include "megacpp/train/run_state.h"

namespace megacpp::train {
namespace {

class Trainer {
 public:
  Trainer(const recipe::Recipe& recipe, const compile::Compiled& compiled, const data::Batches& batches,
          runtime::Executable& run, const Options& options)
      : recipe_(recipe),
        batches_(batches),
        run_(run),
        options_(options),
        ids_(state_as<int32_t>(run, "batch.ids")),
        labels_(state_as<int32_t>(run, "batch.labels")),
        has_experts_(!compiled.expert_loads.empty()) {
    if (compiled.memory.find_state("batch.segments") != nullptr) segments_ = state_as<int32_t>(run, "batch.segments");
  }

  StepReport step(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    StepReport report{.step = step,
                      .learning_rate = optim::learning_rate(recipe_.optimizer, step, recipe_.train.steps)};
    for (int64_t micro = 0; micro < recipe_.train.micro_steps; ++micro) micro_step(step, micro, report);
    state_as<float>(run_, "lr")[0] = static_cast<float>(report.learning_rate);
    state_as<float>(run_, "step")[0] = static_cast<float>(step + 1);
    const int64_t last_micro = recipe_.train.micro_steps - 1;
    run_program(compile::kUpdate, step, last_micro);
    report.grad_norm = run_.scalar_output(compile::kUpdate, "grad_norm");
    if (!std::isfinite(report.grad_norm)) refuse(step, last_micro, fmt::format("gradient norm {}", report.grad_norm));
    report.tokens = recipe_.train.micro_steps * recipe_.train.batch * recipe_.train.sequence;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

 private:
  void micro_step(int64_t step, int64_t micro, StepReport& report) {
    batches_.fill(step, micro, ids_, labels_);
    if (!segments_.empty()) batches_.fill_documents(batches_.first_sequence(step, micro), segments_);
    run_program(compile::kMicroStep, step, micro);
    const double share = 1.0 / static_cast<double>(recipe_.train.micro_steps);
    const double loss = run_.scalar_output(compile::kMicroStep, "loss");
    if (!std::isfinite(loss)) refuse(step, micro, fmt::format("loss {}", loss));
    report.loss += share * loss;
    report.cross_entropy += share * run_.scalar_output(compile::kMicroStep, "ce");
    if (!has_experts_) return;
    report.balance += share * run_.scalar_output(compile::kMicroStep, "aux");
    report.dropped += run_.scalar_output(compile::kMicroStep, "dropped");
  }

  // Under --check-nans every result is looked at, and the first bad one ends the run before it can spread.
  void run_program(size_t program, int64_t step, int64_t micro) {
    if (!options_.check_nans) return run_.run(program);
    if (const std::optional<runtime::BadValue> bad = run_.run_checked(program))
      refuse(step, micro,
             fmt::format("a number that is not finite, made by node {} of {}: {} @{} -> {}", bad->node, bad->program,
                         bad->op, bad->scope, bad->type));
  }

  [[noreturn]] void refuse(int64_t step, int64_t micro, const std::string& got) {
    base::raise(base::Code::E1302,
                {.where = fmt::format("step {}, micro-step {}", step, micro),
                 .got = got,
                 .wanted = "a finite loss and finite gradients",
                 .next = options_.check_nans
                             ? "lower optimizer.lr or look at the weights of that block"
                             : "lower optimizer.lr, or run again with --check-nans to see the op that made it"});
  }

  const recipe::Recipe& recipe_;
  const data::Batches& batches_;
  runtime::Executable& run_;
  const Options& options_;
  std::span<int32_t> ids_, labels_, segments_;  // [batch, sequence]
  bool has_experts_;
};

}  // namespace

std::vector<StepReport> train(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                              const data::Batches& batches, runtime::Executable& run, const Options& options,
                              const Hooks& hooks) {
  Trainer trainer(recipe, compiled, batches, run, options);
  std::vector<StepReport> reports;
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    if (hooks.should_stop && hooks.should_stop()) break;
    reports.push_back(trainer.step(step));
    if (hooks.after_step) hooks.after_step(reports.back());
  }
  return reports;
}

}  // namespace megacpp::train
