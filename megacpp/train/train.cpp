// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <chrono>
#include <cmath>

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
    run_.run(compile::kUpdate);
    report.grad_norm = run_.scalar_output(compile::kUpdate, "grad_norm");
    report.tokens = recipe_.train.micro_steps * recipe_.train.batch * recipe_.train.sequence;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

 private:
  void micro_step(int64_t step, int64_t micro, StepReport& report) {
    batches_.fill(step, micro, ids_, labels_);
    if (!segments_.empty()) batches_.fill_documents(batches_.first_sequence(step, micro), segments_);
    run_.run(compile::kMicroStep);
    const double share = 1.0 / static_cast<double>(recipe_.train.micro_steps);
    const double loss = run_.scalar_output(compile::kMicroStep, "loss");
    if (!std::isfinite(loss)) refuse_loss(step, micro, loss);
    report.loss += share * loss;
    report.cross_entropy += share * run_.scalar_output(compile::kMicroStep, "ce");
    if (!has_experts_) return;
    report.balance += share * run_.scalar_output(compile::kMicroStep, "aux");
    report.dropped += run_.scalar_output(compile::kMicroStep, "dropped");
  }

  [[noreturn]] void refuse_loss(int64_t step, int64_t micro, double loss) {
    base::Problem problem{.where = fmt::format("step {}, micro-step {}", step, micro),
                          .got = fmt::format("loss {}", loss),
                          .wanted = "a finite loss",
                          .next = "lower optimizer.lr, or run again with --check-nans to see the op that made it"};
    if (options_.check_nans) {
      const std::vector<runtime::BadValue> bad = run_.find_bad_values(compile::kMicroStep);
      if (!bad.empty())
        problem.got += fmt::format("; first made by node {} of {}: {} @{} -> {}", bad[0].node, bad[0].program,
                                   bad[0].op, bad[0].scope, bad[0].type);
      problem.next = "lower optimizer.lr or look at the weights of that block";
    }
    base::raise(base::Code::E1302, std::move(problem));
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
  reports.reserve(static_cast<size_t>(recipe.train.steps));
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    if (hooks.should_stop && hooks.should_stop()) break;
    reports.push_back(trainer.step(step));
    if (hooks.after_step) hooks.after_step(reports.back());
  }
  return reports;
}

}  // namespace megacpp::train
