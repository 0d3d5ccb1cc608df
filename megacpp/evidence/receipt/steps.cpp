// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>

#include <fmt/format.h>

namespace megacpp::receipt {
namespace {

using train::StepReport;
using Reports = std::span<const StepReport>;

constexpr int64_t kWarmUpShare = 10;  // of the requested steps, one in so many
constexpr int64_t kLeastWarmUp = 2;
constexpr int64_t kMostWarmUp = 50;

int64_t warm_up_steps(int64_t requested) { return std::clamp(requested / kWarmUpShare, kLeastWarmUp, kMostWarmUp); }

/// Where the steady ones begin.
size_t end_of_warm_up(Reports reports, int64_t requested) {
  const int64_t wanted = warm_up_steps(requested);
  size_t end = 1;
  for (int64_t steps = 0; end < reports.size() && steps < wanted; ++end) steps += reports[end].steps;
  return std::min(end, reports.size());
}

std::optional<Phase> phase_of(Reports reports) {
  if (reports.empty()) return std::nullopt;
  Phase phase{.first_step = reports.front().step - reports.front().steps + 1};
  for (const StepReport& report : reports) {
    phase.steps += report.steps;
    phase.tokens += report.tokens;
    phase.seconds += report.seconds - report.saving_seconds;
  }
  return phase;
}

/// Six digits: what a clock is worth, and a shorter file.
double rounded(double seconds) { return std::stod(fmt::format("{:.6g}", seconds)); }

StepSamples samples_of(Reports steady) {
  if (steady.empty()) return {};
  StepSamples samples{.first_step = steady.front().step - steady.front().steps + 1, .steps_each = 1};
  std::vector<double>& seconds = samples.seconds;
  const bool is_each_timed = std::ranges::all_of(
      steady, [](const StepReport& report) { return std::ssize(report.step_seconds) == report.steps; });
  if (is_each_timed) {
    for (const StepReport& report : steady)
      seconds.insert(seconds.end(), report.step_seconds.begin(), report.step_seconds.end());
  } else {
    samples.steps_each = steady.front().steps;
    for (const StepReport& report : steady)
      if (report.steps == samples.steps_each)
        seconds.push_back((report.seconds - report.saving_seconds) / static_cast<double>(report.steps));
  }
  while (seconds.size() > kMostSamples) {
    for (size_t i = 0; 2 * i + 1 < seconds.size(); ++i) seconds[i] = (seconds[2 * i] + seconds[2 * i + 1]) / 2;
    seconds.resize(seconds.size() / 2);
    samples.steps_each *= 2;
  }
  std::ranges::transform(seconds, seconds.begin(), rounded);
  return samples;
}

SteadyCounters steady_counters(Reports steady) {
  SteadyCounters counters;
  for (const StepReport& report : steady) {
    counters.programs_made += report.programs_made;
    counters.host_syncs += report.host_syncs;
  }
  return counters;
}

std::vector<ExpertLoad> loads_of(Reports reports) {
  std::vector<ExpertLoad> loads;
  double steps = 0;
  for (const StepReport& report : reports) {
    if (report.experts.empty()) continue;
    loads.resize(report.experts.size());
    ++steps;
    for (size_t block = 0; block < loads.size(); ++block) {
      const train::ExpertShares& shares = report.experts[block];
      ExpertLoad& load = loads[block];
      load.block = shares.block;
      load.share.resize(shares.share.size());
      for (size_t expert = 0; expert < load.share.size(); ++expert) load.share[expert] += shares.share[expert];
      load.dropped += std::accumulate(shares.dropped.begin(), shares.dropped.end(), 0.0);
    }
  }
  for (ExpertLoad& load : loads) {
    for (double& share : load.share) share = rounded(share / steps);
    if (!load.share.empty()) load.imbalance = std::ranges::max(load.share) * static_cast<double>(load.share.size());
  }
  return loads;
}

/// Between neighbours where it falls between two; `sorted` has one at least.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

void add_mfu(Receipt& receipt) {
  Mfu& mfu = receipt.mfu;
  const std::optional<Phase>& steady = receipt.times.steady;
  const int64_t chips = receipt.header.hardware.chips.value_or(0);
  if (!steady || !mfu.peak_flops || !(mfu.model_flops > 0) || !(steady->seconds > 0) || chips == 0) return;
  mfu.value = mfu.model_flops / (steady->step_seconds() * static_cast<double>(chips) * *mfu.peak_flops);
}

}  // namespace

void forget_unknown_times(Times& times) {
  for (std::optional<Phase>* phase : {&times.first, &times.warm_up, &times.steady})
    if (*phase && !((*phase)->steps > 0 && (*phase)->seconds > 0)) phase->reset();
  const auto is_known = [](double seconds) { return seconds > 0; };
  if (!std::ranges::all_of(times.samples.seconds, is_known)) times.samples = {};
  if (times.samples.seconds.empty() || (times.spread && !(times.spread->median > 0))) times.spread.reset();
}

int64_t steps_with_steady(int64_t steady) {
  int64_t requested = 1 + kLeastWarmUp + steady;
  while (requested - 1 - warm_up_steps(requested) < steady) ++requested;
  return requested;
}

Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return {.mean = mean,
          .deviation = samples.size() > 1 ? std::sqrt(squares / (count - 1)) : 0,
          .least = samples.front(),
          .lower_quartile = quantile(samples, 0.25),
          .median = quantile(samples, 0.5),
          .upper_quartile = quantile(samples, 0.75),
          .most = samples.back()};
}

void add_steps(Receipt& receipt, std::vector<StepReport> reports) {
  Ending& ending = receipt.ending;
  std::erase_if(reports,
                [&](const StepReport& report) { return report.step < ending.first_step || report.steps <= 0; });
  ending.steps = reports.empty() ? ending.first_step : reports.back().step + 1;
  if (reports.empty()) return;
  const Reports all = reports;
  const size_t steady_from = end_of_warm_up(all, ending.requested_steps - ending.first_step);
  const Reports steady = all.subspan(steady_from);
  Times& times = receipt.times;
  times.first = phase_of(all.first(1));
  times.warm_up = phase_of(all.subspan(1, steady_from - 1));
  times.steady = phase_of(steady);
  times.samples = samples_of(steady);
  forget_unknown_times(times);
  if (!times.samples.seconds.empty()) times.spread = spread_of(times.samples.seconds);
  int64_t stalls = 0;
  for (const StepReport& report : steady) stalls += report.data_stalls.count;
  times.data_stalls = stalls;
  if (!steady.empty()) receipt.counters.steady = steady_counters(steady);
  receipt.losses = {.first = reports.front().loss, .last = reports.back().loss};
  receipt.experts = loads_of(steady.empty() ? all : steady);
  add_mfu(receipt);
}

}  // namespace megacpp::receipt
