// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/train.h"

#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/optim/optimizer.h"
#include "megacpp/train/run_state.h"

namespace megacpp::train {
namespace {

// The tokens of one micro-batch, in the order the run stores them in. [batch, sequence]
struct Tokens {
  std::vector<int32_t> ids, labels, segments;  // the last only with document masks
};

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
        micros_(static_cast<size_t>(recipe.train.micro_steps)) {
    const size_t tokens = static_cast<size_t>(recipe.train.batch * recipe.train.sequence);
    for (Tokens& micro : micros_) {
      micro.ids.resize(tokens);
      micro.labels.resize(tokens);
      if (state_.reads("batch.segments")) micro.segments.resize(tokens);
    }
    positions_.resize(static_cast<size_t>(recipe.train.sequence));
    std::iota(positions_.begin(), positions_.end(), 0);
    positions_ = in_stored_order(positions_, compiled.time_order, recipe.train.sequence);
  }

  StepReport step(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    StepReport report{.step = step,
                      .learning_rate = optim::learning_rate(recipe_.optimizer, step, recipe_.train.steps)};
    for (int64_t micro = 0; micro < recipe_.train.micro_steps; ++micro) draw(step, micro);
    write_scalar("lr", static_cast<float>(report.learning_rate));
    write_scalar("step", static_cast<float>(step + 1));
    run_all(step, report);
    report.tokens = recipe_.train.micro_steps * recipe_.train.batch * recipe_.train.sequence;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

 private:
  void write_scalar(const std::string& name, float value) { state_.write<float>(name, std::span(&value, 1)); }

  void draw(int64_t step, int64_t micro) {
    Tokens& tokens = micros_[static_cast<size_t>(micro)];
    const auto stored = [this](std::vector<int32_t>& values) {
      if (compiled_.time_order.size() > 1)
        values = in_stored_order(values, compiled_.time_order, recipe_.train.sequence);
    };
    batches_.fill(step, micro, tokens.ids, tokens.labels);
    stored(tokens.ids);
    stored(tokens.labels);
    if (tokens.segments.empty()) return;
    batches_.fill_documents(batches_.first_sequence(step, micro), tokens.segments);
    stored(tokens.segments);
  }

  void run_all(int64_t step, StepReport& report) {
    const int64_t reporter = compiled_.reporting_chip();
    const runtime::StepHooks hooks{
        .before = [this](int64_t chip, const compile::Action& action) { fill(chip, action); },
        .after =
            [&](int64_t chip, const compile::Action& action) {
              if (chip == reporter) read(step, chip, action, report);
            },
        .check_values = options_.check_nans};
    try {
      run_.run_step(hooks);
    } catch (const runtime::NotFinite& bad) {
      const runtime::BadValue& value = bad.value;
      refuse(step, bad.action.micro,
             fmt::format("a number that is not finite, made by node {} of {} on chip {}: {} @{} -> {}", value.node,
                         value.program, value.chip, value.op, value.scope, value.type));
    }
  }

  // A chip of a pipeline stage holds only what its part of the model reads.
  void fill(int64_t chip, const compile::Action& action) {
    if (!action.reads_batch) return;
    const Tokens& tokens = micros_[static_cast<size_t>(action.micro)];
    state_.write_part<int32_t>(chip, action.prefix + "batch.ids", tokens.ids);
    state_.write_part<int32_t>(chip, action.prefix + "batch.labels", tokens.labels);
    state_.write_part<int32_t>(chip, action.prefix + "batch.segments", tokens.segments);
    state_.write_part<int32_t>(chip, action.prefix + "batch.positions", positions_);
  }

  // Means over micro-steps; a number that is not finite ends the run.
  void read(int64_t step, int64_t chip, const compile::Action& action, StepReport& report) {
    const auto output = [&](const std::string& name) { return run_.scalar_output(action.program, name, chip); };
    if (action.reports) {
      const double share = 1.0 / static_cast<double>(recipe_.train.micro_steps);
      const double loss = output("loss");
      if (!std::isfinite(loss)) refuse(step, action.micro, fmt::format("loss {}", loss));
      report.loss += share * loss;
      report.cross_entropy += share * output("ce");
      if (compiled_.expert_loads.empty()) return;
      report.balance += share * output("aux");
      report.dropped += output("dropped");
    } else if (compiled_.programs_of(chip).kind_of(action) == compile::ProgramKind::update) {
      report.grad_norm = output("grad_norm");
      if (!std::isfinite(report.grad_norm))
        refuse(step, action.micro, fmt::format("gradient norm {}", report.grad_norm));
    }
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
  std::vector<Tokens> micros_;
  std::vector<int32_t> positions_;  // [sequence]: place in time of each stored token
};

}  // namespace

data::BatchOptions batch_options(const recipe::Recipe& recipe) {
  return {.batch = recipe.train.batch,
          .sequence = recipe.train.sequence,
          .micro_steps = recipe.train.micro_steps,
          .vocab = recipe.model.vocab,
          .seed = static_cast<uint64_t>(recipe.train.seed)};
}

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
