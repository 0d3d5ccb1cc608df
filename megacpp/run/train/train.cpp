// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/train.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utc_time.h"
#include "megacpp/program/optim/optimizer.h"
#include "megacpp/run/train/run_state.h"

namespace megacpp::train {
namespace {

// The inputs of a micro-step that come from the data, each with the part of a micro-batch it reads.
constexpr std::array<std::pair<const char*, std::vector<int32_t> data::MicroBatch::*>, 4> kBatchInputs = {
    {{"batch.ids", &data::MicroBatch::ids},
     {"batch.labels", &data::MicroBatch::labels},
     {"batch.segments", &data::MicroBatch::segments},
     {"batch.document_positions", &data::MicroBatch::document_positions}}};

class Trainer {
 public:
  Trainer(const Training& training, const Options& options)
      : recipe_(training.recipe),
        compiled_(training.compiled),
        batches_(training.batches),
        run_(training.run),
        state_(training.compiled, training.run),
        options_(options),
        rows_(rows_read_here()),
        in_time_(static_cast<size_t>(recipe_.train.batch * recipe_.train.sequence)),
        ahead_([this](int64_t step, int64_t micro, data::MicroBatch& batch) { draw(step, micro, batch); },
               {.first_step = training.first_step,
                .end_step = recipe_.train.steps,
                .micro_steps = recipe_.train.micro_steps,
                .like = read_by_the_run()}) {
    std::vector<int32_t> positions(static_cast<size_t>(recipe_.train.sequence));
    std::iota(positions.begin(), positions.end(), 0);
    positions = in_stored_order(positions, compiled_.time_order, recipe_.train.sequence);
    for (int64_t micro = 0; micro < recipe_.train.micro_steps; ++micro)
      state_.stage<int32_t>("batch.positions", micro, positions);
    if (run_.waits_for_steps())
      step_seconds_.reserve(static_cast<size_t>(std::min({recipe_.train.log_every, recipe_.train.steps, kTimedSteps})));
    begin_counts();
  }

  /// False where it was stopped in the step, which then counts for nothing.
  bool run(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    if (first_ < 0) {
      first_ = step;
      start_ = start;
    }
    for (int64_t micro = 0; micro < recipe_.train.micro_steps; ++micro) {
      const data::MicroBatch& batch = ahead_.next();
      for (const auto& [input, tokens] : kBatchInputs)
        if (!(batch.*tokens).empty()) state_.stage<int32_t>(input, micro, batch.*tokens);
    }
    stage_scalar("lr", static_cast<float>(learning_rate(step)));
    stage_scalar("step", static_cast<float>(step + 1));
    try {
      run_step(step);
    } catch (const runtime::StoppedInStep&) {
      stopped_ = start;
      return false;
    }
    if (step_seconds_.size() < step_seconds_.capacity()) step_seconds_.push_back(seconds_since(start));
    return true;
  }

  /// What is requested between two steps and no part of them: its time and its waits are left out of their figures.
  void save(const std::function<void(int64_t)>& save_state, int64_t steps_done) {
    const bool is_in_window = first_ >= 0;
    const int64_t syncs = run_.counters().host_syncs;
    // Steps that devices have not done yet would be waited for as a part of saving.
    if (is_in_window && !run_.waits_for_steps() && reports_here()) fetch("loss");
    const auto start = std::chrono::steady_clock::now();
    save_state(steps_done);
    saved_syncs_ += run_.counters().host_syncs - syncs;
    if (is_in_window) saving_seconds_ += seconds_since(start);
  }

  /// Of the last whole step. Waits for it, and ends the time since the report before.
  StepReport report(int64_t step) {
    StepReport report{.step = step, .learning_rate = learning_rate(step), .steps = step - first_ + 1};
    add_counts(report);
    if (reports_here() && !stopped_) fetch_metrics(report);
    const auto end = stopped_.value_or(std::chrono::steady_clock::now());
    report.seconds = std::chrono::duration<double>(end - start_).count();
    report.tokens = report.steps * recipe_.train.micro_steps * recipe_.train.batch * recipe_.train.sequence;
    report.data_stalls = ahead_.take_stalls();
    add_worst_chips(report);
    report.logged_at = base::unix_seconds();
    first_ = -1;
    begin_counts();
    return report;
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void begin_counts() {
    syncs_before_ = run_.counters().host_syncs;
    programs_before_ = run_.programs_made();
    step_seconds_.clear();
    saving_seconds_ = 0;
    saved_syncs_ = 0;
  }

  // Before metrics are fetched.
  void add_counts(StepReport& report) const {
    const int64_t tried = report.steps + (stopped_ ? 1 : 0);
    report.host_syncs =
        run_.counters().host_syncs - syncs_before_ - saved_syncs_ - (run_.waits_for_steps() ? tried : 0);
    report.programs_made = run_.programs_made() - programs_before_;
    report.saving_seconds = saving_seconds_;
    if (std::ssize(step_seconds_) == report.steps) report.step_seconds = step_seconds_;
  }

  void add_worst_chips(StepReport& report) const {
    for (const int64_t chip : run_.local_chips()) {
      const std::optional<int64_t> peak = run_.memory(chip).measured_peak_bytes;
      if (!peak || (report.peak_bytes && *peak <= *report.peak_bytes)) continue;
      report.peak_bytes = peak;
      report.peak_chip = chip;
    }
    if (const std::optional<runtime::BusyChip> busiest = run_.busy()) {
      report.busy_seconds = busiest->seconds;
      report.busy_chip = busiest->chip;
    }
  }

  // Another process may have the chip that makes the metrics.
  bool reports_here() const { return std::ranges::count(run_.local_chips(), compiled_.reporting_chip()) > 0; }

  void fetch_metrics(StepReport& report) const {
    const std::vector<float> losses = fetch("loss");
    for (size_t micro = 0; micro < losses.size(); ++micro)
      if (!std::isfinite(losses[micro])) refuse(place(report.step, micro), fmt::format("loss {}", losses[micro]));
    report.loss = mean(losses);
    report.cross_entropy = mean(fetch("ce"));
    if (!compiled_.expert_loads.empty()) {
      report.balance = mean(fetch("aux"));
      double dropped = 0;
      for (const float count : fetch("dropped")) dropped += static_cast<double>(count);
      report.dropped = dropped;
      report.experts = read_expert_shares(compiled_, state_);
    }
    const auto norm = static_cast<double>(fetch("grad_norm").at(0));
    if (!std::isfinite(norm)) refuse(place(report.step, losses.size() - 1), fmt::format("gradient norm {}", norm));
    report.grad_norm = norm;
  }

  double learning_rate(int64_t step) const {
    return optim::learning_rate(recipe_.optimizer, step, recipe_.train.steps);
  }

  void stage_scalar(const std::string& name, float value) { state_.stage<float>(name, 0, std::span(&value, 1)); }

  std::vector<float> fetch(const std::string& name) const { return run_.fetch_f32(name, compiled_.reporting_chip()); }

  double mean(const std::vector<float>& values) const {
    const double share = 1.0 / static_cast<double>(recipe_.train.micro_steps);
    double sum = 0;
    for (const float value : values) sum += share * static_cast<double>(value);
    return sum;
  }

  data::MicroBatch read_by_the_run() const {
    data::MicroBatch like;
    for (const auto& [input, tokens] : kBatchInputs)
      if (state_.stages(input)) (like.*tokens).resize(in_time_.size());
    return like;
  }

  // The sequences that local chips read: a process reads no sample that is another's alone.
  std::vector<int64_t> rows_read_here() const {
    std::set<int64_t> rows;
    for (const auto& [input, tokens] : kBatchInputs)
      for (const int64_t row : state_.local_rows(input)) rows.insert(row);
    return {rows.begin(), rows.end()};
  }

  // In the order the run stores tokens in. Runs on the thread that reads ahead.
  void draw(int64_t step, int64_t micro, data::MicroBatch& batch) {
    batches_.fill_rows(step, micro, rows_, batch);
    if (compiled_.time_order.size() < 2) return;
    for (const auto& [input, tokens] : kBatchInputs) {
      std::vector<int32_t>& values = batch.*tokens;
      if (values.empty()) continue;
      in_time_.swap(values);
      write_in_stored_order<int32_t>(in_time_, compiled_.time_order, recipe_.train.sequence, values);
    }
  }

  void run_step(int64_t step) {
    using runtime::StepMode;
    try {
      run_.run_step(options_.check_nans ? StepMode::check_values : StepMode::plain);
    } catch (const runtime::NotFinite& bad) {
      const runtime::BadValue& value = bad.value;
      refuse(fmt::format("step {}, micro-step {}", step, bad.action.micro),
             fmt::format("a number that is not finite, made by node {} of {} on chip {}: {} @{} -> {}", value.node,
                         value.program, value.chip, value.op, value.scope, value.type));
    }
  }

  // What is not finite may have become so in any step since the last look.
  std::string place(int64_t step, size_t micro) const {
    return first_ == step ? fmt::format("step {}, micro-step {}", step, micro)
                          : fmt::format("in steps {} to {}", first_, step);
  }

  [[noreturn]] void refuse(const std::string& where, const std::string& got) const {
    base::raise(base::Code::E1302,
                {.where = where,
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
  const std::vector<int64_t> rows_;              // of a micro-batch
  std::vector<int32_t> in_time_;                 // one tensor of tokens, before it is put into the stored order
  int64_t first_ = -1;                           // step since the last report; -1: none yet
  std::chrono::steady_clock::time_point start_;  // of that step
  /// The start of a step that was stopped: its micro-steps have overwritten metrics of the step before.
  std::optional<std::chrono::steady_clock::time_point> stopped_;
  // Since the last report.
  std::vector<double> step_seconds_;  // never beyond its capacity: steps allocate nothing
  double saving_seconds_ = 0;
  int64_t saved_syncs_ = 0;
  int64_t syncs_before_ = 0;     // counted until then
  int64_t programs_before_ = 0;  //
  data::ReadAhead ahead_;        // last: its thread uses the members above
};

}  // namespace

data::BatchOptions batch_options(const recipe::Recipe& recipe) {
  return {.batch = recipe.train.batch,
          .sequence = recipe.train.sequence,
          .micro_steps = recipe.train.micro_steps,
          .vocab = recipe.model.vocab,
          .draw = {.seed = static_cast<uint64_t>(recipe.data.seed < 0 ? recipe.train.seed : recipe.data.seed),
                   .held_out = recipe.data.held_out}};
}

bool is_logged(const recipe::Train& train, int64_t step) {
  return step % train.log_every == 0 || step + 1 == train.steps;
}

bool is_saved(const recipe::Recipe& recipe, int64_t steps_done) {
  const int64_t every = recipe.checkpoint.every;
  return (every > 0 && steps_done % every == 0) || steps_done == recipe.train.steps;
}

int64_t steps_in(const std::vector<StepReport>& reports) { return reports.empty() ? 0 : reports.back().step + 1; }

std::vector<StepReport> train(const Training& training, const Options& options) {
  Trainer trainer(training, options);
  std::vector<StepReport> reports;
  const auto log = [&](int64_t step) {
    reports.push_back(trainer.report(step));
    if (options.complete_report) options.complete_report(reports.back());
    if (options.after_log) options.after_log(reports.back());
  };
  const recipe::Train& schedule = training.recipe.train;
  int64_t step = training.first_step, saved = step;
  const auto save = [&] {
    if (options.save && saved != step) trainer.save(options.save, step);
    saved = step;
  };
  while (step < schedule.steps) {
    if (options.should_stop && options.should_stop()) break;
    if (!trainer.run(step)) break;
    if (is_logged(schedule, step)) log(step);
    ++step;
    if (is_saved(training.recipe, step)) save();
  }
  if (step > training.first_step && (reports.empty() || reports.back().step + 1 != step)) log(step - 1);
  save();
  return reports;
}

}  // namespace megacpp::train
