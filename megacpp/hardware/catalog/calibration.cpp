// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/calibration.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "megacpp/hardware/catalog/nonnegative_fit.h"

namespace megacpp::catalog {
namespace {

// What is believed before any sample: predictions scatter by some 2 %, factors are within some 30 % of 1.
constexpr double kScatter = 0.02, kFactorSpread = 0.3;
constexpr double kPull = (kScatter / kFactorSpread) * (kScatter / kFactorSpread);
// Up to this relative error a sample counts in full; beyond, less the further it is off.
constexpr double kFullWeightError = 0.05;
constexpr int kReweightings = 10;
constexpr size_t kMostNamed = 3;  // other builds that a text names one by one

using Samples = std::vector<const Sample*>;  // some of those given, which are not copied

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Errors errors_of(const std::vector<double>& relative) {
  return relative.empty() ? Errors{} : Errors{median(relative), *std::max_element(relative.begin(), relative.end())};
}

double relative_error(double predicted, double measured) { return std::abs(predicted / measured - 1); }

Errors errors_as_predicted(const Samples& samples) {
  std::vector<double> relative;
  for (const Sample* sample : samples) relative.push_back(relative_error(total(sample->parts), sample->measured));
  return errors_of(relative);
}

Samples pointers_to(const std::vector<Sample>& samples) {
  Samples all;
  for (const Sample& sample : samples) all.push_back(&sample);
  return all;
}

std::vector<std::string> part_names(const Samples& samples) {
  std::set<std::string> names;
  for (const Sample* sample : samples)
    for (const auto& [name, value] : sample->parts) names.insert(name);
  return {names.begin(), names.end()};
}

/// Parts as shares of what was measured, so that small and large models count alike.
std::vector<FitRow> fit_rows(const Samples& samples, const std::vector<std::string>& names) {
  std::vector<FitRow> rows;
  for (const Sample* sample : samples) {
    FitRow row = {.values = std::vector<double>(names.size(), 0), .target = 1};
    for (const auto& [name, value] : sample->parts) {
      const auto at = std::lower_bound(names.begin(), names.end(), name) - names.begin();
      row.values[static_cast<size_t>(at)] += value / sample->measured;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Huber's weights: errors count squared while small and only linearly when large, so one odd sample cannot bend all.
std::vector<double> robust_factors(std::vector<FitRow> rows, size_t factors) {
  std::vector<double> fitted = fit_nonnegative(rows, kPull, std::vector<double>(factors, 1));
  for (int round = 0; round < kReweightings; ++round) {
    bool changed = false;
    for (FitRow& row : rows) {
      double predicted = 0;
      for (size_t i = 0; i < factors; ++i) predicted += row.values[i] * fitted[i];
      const double error = std::abs(predicted - row.target);
      const double weight = error <= kFullWeightError ? 1 : kFullWeightError / error;
      changed |= std::abs(weight - row.weight) > 1e-3;
      row.weight = weight;
    }
    if (!changed) break;
    fitted = fit_nonnegative(rows, kPull, std::move(fitted));
  }
  return fitted;
}

Correction fit_without_errors(const Samples& samples) {
  if (samples.empty()) return {};
  Correction correction = {.samples = samples.size()};
  std::vector<double> ratios;
  for (const Sample* sample : samples) ratios.push_back(sample->measured / total(sample->parts));
  correction.factor = median(ratios);
  const std::vector<std::string> names = part_names(samples);
  correction.method = samples.size() < names.size() ? Method::median_ratio : Method::parts;
  if (correction.method == Method::median_ratio) return correction;
  const std::vector<double> fitted = robust_factors(fit_rows(samples, names), names.size());
  for (size_t i = 0; i < names.size(); ++i) correction.factors.emplace_back(names[i], fitted[i]);
  return correction;
}

/// A machine's threads are divided among its chips: every layout has its own number of them.
Build without_threads(Build build) {
  build.threads = 0;
  return build;
}

/// The own ones alone where they suffice for a factor for each part that anybody measured; else all.
Samples trusted(const Samples& all, const Build& own) {
  Samples owns;
  for (const Sample* sample : all)
    if (without_threads(sample->signature.build) == own) owns.push_back(sample);
  return owns.empty() || owns.size() < part_names(all).size() ? all : owns;
}

void name_sources(Correction& correction, const Samples& samples, const Build& own) {
  correction.own = own;
  for (const Sample* sample : samples) {
    const Build build = without_threads(sample->signature.build);
    if (build == own) {
      ++correction.own_samples;
      continue;
    }
    const auto known = std::ranges::find(correction.others, build, &Source::build);
    if (known == correction.others.end())
      correction.others.push_back({build, 1});
    else
      ++known->samples;
  }
  std::ranges::stable_sort(correction.others, std::greater<>(), &Source::samples);
}

LeaveOneOut judge_each(const Samples& samples) {
  std::vector<std::string> subjects;
  for (const Sample* sample : samples) subjects.push_back(subject_text(sample->signature));
  LeaveOneOut result = {.before = errors_as_predicted(samples)};
  std::vector<double> relative;
  for (size_t judged = 0; judged < samples.size(); ++judged) {
    Samples others;
    for (size_t i = 0; i < samples.size(); ++i)
      if (subjects[i] != subjects[judged]) others.push_back(samples[i]);
    const Sample& sample = *samples[judged];
    const double corrected = fit_without_errors(others).corrected(sample.parts);
    result.judged.push_back({sample, total(sample.parts), corrected});
    relative.push_back(relative_error(corrected, sample.measured));
  }
  result.after = errors_of(relative);
  return result;
}

}  // namespace

std::string_view method_name(Method method) {
  constexpr std::string_view kNames[] = {"none", "median ratio", "factor for each part"};
  return kNames[static_cast<size_t>(method)];
}

double Correction::factor_of(const std::string& part) const {
  for (const auto& [name, value] : factors)
    if (name == part) return value;
  return method == Method::median_ratio ? factor : 1;
}

double Correction::corrected(const std::vector<Part>& parts) const {
  double sum = 0;
  for (const auto& [name, value] : parts) sum += value * factor_of(name);
  return sum;
}

Correction correction_by_others(const std::vector<Sample>& samples, const Signature& judged) {
  const std::string subject = subject_text(judged);
  std::vector<Sample> others;
  for (const Sample& sample : samples)
    if (subject_text(sample.signature) != subject) others.push_back(sample);
  return fit_correction(others, judged.build);
}

LeaveOneOut leave_one_out(const std::vector<Sample>& samples) { return judge_each(pointers_to(samples)); }

Correction fit_correction(const std::vector<Sample>& samples, const Build& whose) {
  const Build own = without_threads(whose);
  const Samples chosen = trusted(pointers_to(samples), own);
  Correction correction = fit_without_errors(chosen);
  correction.left_out = samples.size() - chosen.size();
  name_sources(correction, chosen, own);
  correction.before = errors_as_predicted(chosen);
  if (chosen.size() > 1) correction.after = judge_each(chosen).after;
  return correction;
}

std::string sources_text(const Correction& correction) {
  std::string text =
      correction.own_samples == 0 ? "none of this build" : fmt::format("{} of this build", correction.own_samples);
  size_t named = 0, rest = 0;
  for (size_t i = 0; i < correction.others.size(); ++i) {
    const Source& source = correction.others[i];
    if (i >= kMostNamed)
      rest += source.samples;
    else
      text += fmt::format("{} {} of {}", named++ == 0 ? ";" : ",", source.samples, to_text(source.build));
  }
  if (rest > 0) text += fmt::format(", {} of {} more builds", rest, correction.others.size() - kMostNamed);
  if (correction.left_out > 0) text += fmt::format("; {} of other builds left out", correction.left_out);
  return text;
}

}  // namespace megacpp::catalog
