// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/metric_logs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace megacpp::serve {
namespace {

using metrics::MetricFamily;

MetricFamily count_of_runs(std::string name, std::string help, size_t count) {
  MetricFamily family{.name = std::move(name), .help = std::move(help)};
  family.samples.push_back({.value = static_cast<double>(count)});
  return family;
}

}  // namespace

// Each log gets its part of the bytes, so that one very long log keeps no other from being read.
bool MetricLogs::follow(Followed& run, const NamedRun& from) {
  const LogTail::Reader reader{
      .restart = [&] { run.metrics = metrics::RunMetrics(from.name); },
      .add = [&](const train::StepReport& report) { run.metrics.add(report); },
  };
  return run.tail.follow(from.path / "log.jsonl", reader, kMostMetricBytes / kMostMetricRuns);
}

std::vector<MetricFamily> MetricLogs::families(const std::vector<NamedRun>& runs) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> names;
  std::vector<const metrics::RunMetrics*> read;
  for (const NamedRun& named : runs) {
    if (names.size() == kMostMetricRuns) break;
    names.insert(named.name);
    Followed& run = runs_.try_emplace(named.name, named.name).first->second;
    if (follow(run, named)) read.push_back(&run.metrics);
  }
  std::erase_if(runs_, [&](const auto& entry) { return !names.contains(entry.first); });
  std::vector<MetricFamily> families = metrics::families_of(read);
  families.push_back(count_of_runs("megacpp_serve_runs", "Runs in the folder that is served.", runs.size()));
  families.push_back(count_of_runs("megacpp_serve_runs_left_out",
                                   "Runs without metrics here: too many, or logs that are not read to their end yet.",
                                   runs.size() - read.size()));
  return families;
}

}  // namespace megacpp::serve
