// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <chrono>
#include <cmath>
#include <numeric>
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
        compiled_(compiled),
        batches_(batches),
        run_(run),
        state_(compiled, run),
        options_(options),
        ids_(static_cast<size_t>(recipe.train.batch * recipe.train.sequence)),
        labels_(ids_.size()),
        has_experts_(!compiled.expert_loads.empty()) {
    if (state_.has("batch.segments")) segments_.resize(ids_.size());
    if (state_.has("batch.positions")) write_positions();
  }

  StepReport step(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    StepReport report{.step = step,
                      .learning_rate = optim::learning_rate(recipe_.optimizer, step, recipe_.train.steps)};
    for (int64_t micro = 0; micro < recipe_.train.micro_steps; ++micro) micro_step(step, micro, report);
    write_scalar("lr", static_cast<float>(report.learning_rate));
    write_scalar("step", static_cast<float>(step + 1));
    const int64_t last_micro = recipe_.train.micro_steps - 1;
    run_program(compile::kUpdate, step, last_micro);
    report.grad_norm = run_.scalar_output(compile::kUpdate, "grad_norm");
    if (!std::isfinite(report.grad_norm)) refuse(step, last_micro, fmt::format("gradient norm {}", report.grad_norm));
    report.tokens = recipe_.train.micro_steps * recipe_.train.batch * recipe_.train.sequence;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

 private:
  // Sequences may be stored in another order than time's, so that every chip has early and late tokens.
  void write_tokens(const std::string& name, const std::vector<int32_t>& tokens) {
    state_.write<int32_t>(name, in_stored_order(tokens, compiled_.time_order, recipe_.train.sequence));
  }

  void write_positions() {
    std::vector<int32_t> positions(static_cast<size_t>(recipe_.train.sequence));
    std::iota(positions.begin(), positions.end(), 0);
    write_tokens("batch.positions", positions);
  }

  void write_scalar(const std::string& name, float value) { state_.write<float>(name, std::span(&value, 1)); }

  void fill_batch(int64_t step, int64_t micro) {
    batches_.fill(step, micro, ids_, labels_);
    write_tokens("batch.ids", ids_);
    write_tokens("batch.labels", labels_);
    if (segments_.empty()) return;
    batches_.fill_documents(batches_.first_sequence(step, micro), segments_);
    write_tokens("batch.segments", segments_);
  }

  void micro_step(int64_t step, int64_t micro, StepReport& report) {
    fill_batch(step, micro);
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
             fmt::format("a number that is not finite, made on chip {} by node {} of {}: {} @{} -> {}", bad->chip,
                         bad->node, bad->program, bad->op, bad->scope, bad->type));
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
  const compile::Compiled& compiled_;
  const data::Batches& batches_;
  runtime::Executable& run_;
  RunState state_;
  const Options& options_;
  std::vector<int32_t> ids_, labels_, segments_;  // [batch, sequence]; the last only with document masks
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
