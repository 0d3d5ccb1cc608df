// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/probe.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/program/recipe/print.h"

namespace megacpp::sweep {
namespace {

// By its plan, or by the system, which kills what takes too much.
bool is_too_large(int status) {
  constexpr int kKilled = 128 + SIGKILL;
  return status == base::exit_status(base::ErrorClass::does_not_fit) || status == kKilled;
}

class Prober {
 public:
  Prober(const ProbeRequest& request, const TrialRunner& runner, const OnProbe& on_probe)
      : request_(request), runner_(runner), on_probe_(on_probe) {
    unit_ = request.key == "train.sequence" ? request.recipe.train.sequence : request.recipe.train.batch;
    base::make_folder(request.folder / "runs");
    base::write_file_atomically(recipe_file(), recipe::print(request.recipe));
  }

  Probe find() {
    int64_t fits = 0, fails = 0;  // multiples of the recipe's value
    for (int64_t multiple = 1; fits < request_.most_times && fails == 0;
         multiple = std::min(2 * multiple, request_.most_times))
      (runs(multiple) ? fits : fails) = multiple;
    probe_.reached_most = fails == 0;
    while (fails - fits > 1 && fits > 0) {
      const int64_t middle = (fits + fails) / 2;
      (runs(middle) ? fits : fails) = middle;
    }
    while (fits > 0 && !is_validated(fits)) --fits;
    probe_.validated = is_over() ? 0 : fits * unit_;
    return std::move(probe_);
  }

 private:
  std::filesystem::path recipe_file() const { return request_.folder / "probe.yaml"; }

  std::string free_name(int64_t value) const {
    int number = 1;
    while (base::exists(request_.folder / "runs" / fmt::format("{}-{}", value, number))) ++number;
    return fmt::format("{}-{}", value, number);
  }

  bool is_over() const { return probe_.was_stopped || probe_.failed; }

  bool runs(int64_t multiple) {
    if (is_over()) return false;
    const int64_t value = multiple * unit_;
    on_probe_(value);
    const TrialRequest asked{
        .recipe = recipe_file(),
        .overrides = {fmt::format("{}={}", request_.key, value), fmt::format("train.steps={}", kProbeSteps)},
        .run = request_.folder / "runs" / free_name(value)};
    const TrialEnd end = runner_(asked);
    probe_.was_stopped = end.status == base::kInterruptedStatus;
    probe_.failed = end.status != 0 && !probe_.was_stopped && !is_too_large(end.status);
    probe_.trials.push_back({.value = value, .status = end.status, .error = end.error});
    return end.status == 0;
  }

  // It ran once when it was found, or never where one above it failed to be validated.
  bool is_validated(int64_t multiple) {
    const auto ran = static_cast<size_t>(std::ranges::count_if(
        probe_.trials, [&](const ProbedValue& trial) { return trial.value == multiple * unit_ && trial.status == 0; }));
    for (size_t time = ran; time < request_.times; ++time)
      if (!runs(multiple)) return false;
    return true;
  }

  const ProbeRequest& request_;
  const TrialRunner& runner_;
  const OnProbe& on_probe_;
  int64_t unit_ = 1;
  Probe probe_;
};

}  // namespace

Probe run_probe(const ProbeRequest& request, const TrialRunner& runner, const OnProbe& on_probe) {
  return Prober(request, runner, on_probe).find();
}

}  // namespace megacpp::sweep
