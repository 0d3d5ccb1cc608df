// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/catalog_report.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/catalog/oom_report_fields.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/run/launch/entry_notes.h"
#include "megacpp/run/launch/oom_report.h"

namespace megacpp::cli {
namespace {

using base::printable_in_line;
using catalog::Entry;
using catalog::Outcome;
using catalog::Sample;

/// A prediction beside what was measured; either may be missing.
struct Pair {
  std::optional<double> predicted = {};
  std::optional<double> measured = {};
  std::optional<double> error() const {  // relative, above 0 where too much was predicted
    return predicted && measured && *measured > 0 ? std::optional(*predicted / *measured - 1) : std::nullopt;
  }
};

template <typename T>
Pair pair_of(const std::optional<T>& predicted, const std::optional<T>& measured) {
  Pair pair;
  if (predicted) pair.predicted = static_cast<double>(*predicted);
  if (measured) pair.measured = static_cast<double>(*measured);
  return pair;
}

std::string bytes_text(std::optional<double> bytes) {
  return bytes ? memory::human_bytes(static_cast<int64_t>(*bytes)) : "-";
}
std::string seconds_text(std::optional<double> seconds) { return seconds ? base::human_seconds(*seconds) : "-"; }
std::string percent_text(std::optional<double> error) { return error ? fmt::format("{:+.1f} %", 100 * *error) : "-"; }

std::string quantity_text(const std::string& quantity, double value) {
  if (quantity.ends_with("bytes")) return bytes_text(value);
  return quantity.ends_with("seconds") ? seconds_text(value) : fmt::format("{:.4g}", value);
}

/// Peak of the worst chip: of the last launch, or of the last measurement where none was launched.
Pair peak_of(const Entry& entry) {
  if (!entry.outcomes.empty()) {
    const Outcome& last = entry.outcomes.back();
    return pair_of(last.predicted_bytes, last.measured_bytes);
  }
  for (auto sample = entry.samples.rbegin(); sample != entry.samples.rend(); ++sample)
    if (sample->quantity == catalog::kPeakBytes) return {catalog::total(sample->parts), sample->measured};
  return {};
}

std::string outcome_text(const Outcome& outcome) {
  std::string text(outcome.ending());
  if (!outcome.oom_class.empty()) text += fmt::format(" ({})", outcome.oom_class);
  return text;
}

std::string outcome_text(const Entry& entry) {
  std::string text = entry.outcomes.empty() ? "measured" : outcome_text(entry.outcomes.back());
  if (entry.outcomes.size() > 1) text += fmt::format(", {}", base::counted(std::ssize(entry.outcomes), "launch"));
  if (!entry.starts.empty()) text += fmt::format(", start at rung {}", entry.starts.back().rung);
  return text;
}

std::string settings_text(const catalog::Start& start) {
  std::string text;
  for (const auto& [key, value] : start.settings) text += fmt::format(" {}={}", key, value);
  return text;
}

std::string launches_text(const Entry& entry) {
  TextTable table({"when", "outcome", "phase", ">rung", ">predicted", ">measured", ">limit", ">error",
                   ">step predicted", ">step measured", "chip", "note"});
  for (const Outcome& outcome : entry.outcomes) {
    const Pair bytes = pair_of(outcome.predicted_bytes, outcome.measured_bytes);
    table.add({outcome.at, outcome_text(outcome), outcome.phase, std::to_string(outcome.rung),
               bytes_text(bytes.predicted), bytes_text(bytes.measured), bytes_text(outcome.limit_bytes),
               percent_text(bytes.error()), seconds_text(outcome.predicted_seconds),
               seconds_text(outcome.measured_seconds), outcome.chip, outcome.note});
  }
  return "\nlaunches\n" + table.to_text();
}

std::string reports_text(const Entry& entry) {
  std::string text;
  for (const Outcome& outcome : entry.outcomes) {
    if (!outcome.report) continue;
    text += fmt::format("\nout of memory on {}\n", printable_in_line(outcome.at));
    for (const std::string& line : launch::lines_of(*outcome.report)) text += "  " + printable_in_line(line) + "\n";
    if (!outcome.report->message.empty()) text += "  the plugin said:\n" + outcome.report->message + "\n";
  }
  return text;
}

std::string starts_text(const Entry& entry) {
  std::string text = "\nwhat ran instead\n";
  for (const catalog::Start& start : entry.starts) {
    text += printable_in_line(fmt::format("{}  rung {}:{}", start.at, start.rung, settings_text(start))) + "\n";
    for (const std::string& reason : start.reasons) text += "  " + printable_in_line(reason) + "\n";
  }
  return text;
}

std::string samples_text(const Entry& entry, const std::vector<double>& corrected) {
  TextTable table({"when", "lane", "quantity", ">predicted", ">measured", ">error", ">corrected", ">error", "parts"});
  for (size_t i = 0; i < entry.samples.size(); ++i) {
    const Sample& sample = entry.samples[i];
    std::string parts;
    for (const auto& [name, value] : sample.parts)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, quantity_text(sample.quantity, value));
    const double predicted = catalog::total(sample.parts);
    table.add({sample.at, sample.lane, sample.quantity, quantity_text(sample.quantity, predicted),
               quantity_text(sample.quantity, sample.measured), percent_text(predicted / sample.measured - 1),
               quantity_text(sample.quantity, corrected[i]), percent_text(corrected[i] / sample.measured - 1), parts});
  }
  return "\nmeasurements; corrected by what other layouts taught\n" + table.to_text();
}

// ---- JSON

Json signature_json(const Entry& entry, const launch::ThisBuild& here) {
  const catalog::Signature& signature = entry.signature;
  return Json{{"id", entry.id},
              {"key", catalog::key_text(signature)},
              {"when", catalog::last_written(entry)},
              {"code_version", signature.build.code_version},
              {"platform", signature.build.platform},
              {"threads", signature.build.threads > 0 ? Json(signature.build.threads) : Json()},
              {"processor", signature.build.processor},
              {"this_build", here.wrote(signature)},
              {"notes", here.notes_of(entry)},
              {"hardware", signature.hardware},
              {"model", signature.model},
              {"model_hash", signature.model_hash},
              {"layout", signature.layout},
              {"features", signature.features},
              {"shape", signature.shape}};
}

Json json_of(const Outcome& outcome) {
  const Pair bytes = pair_of(outcome.predicted_bytes, outcome.measured_bytes);
  return Json{{"when", outcome.at},
              {"outcome", outcome.ending()},
              {"oom_class", outcome.oom_class},
              {"phase", outcome.phase},
              {"rung", outcome.rung},
              {"chip", outcome.chip},
              {"predicted_bytes", base::record_json(outcome.predicted_bytes)},
              {"measured_bytes", base::record_json(outcome.measured_bytes)},
              {"limit_bytes", base::record_json(outcome.limit_bytes)},
              {"error", base::record_json(bytes.error())},
              {"predicted_seconds", base::record_json(outcome.predicted_seconds)},
              {"measured_seconds", base::record_json(outcome.measured_seconds)},
              {"note", outcome.note},
              {"report", base::record_json(outcome.report)}};
}

Json json_of(const catalog::Start& start) {
  return Json{{"when", start.at},
              {"rung", start.rung},
              {"settings", base::record_json(start.settings)},
              {"reasons", start.reasons}};
}

Json json_of(const Sample& sample, double corrected) {
  return Json{{"when", sample.at},
              {"lane", sample.lane},
              {"quantity", sample.quantity},
              {"parts", base::record_json(sample.parts)},
              {"predicted", catalog::total(sample.parts)},
              {"measured", sample.measured},
              {"corrected", corrected}};
}

Json lane_correction_json(const LaneCorrection& lane) {
  Json json = to_json(lane);
  json["factor"] = lane.correction.factor;
  json["factors"] = base::record_json(lane.correction.factors);
  return json;
}

}  // namespace

std::string list_text(const std::vector<Entry>& entries, const std::vector<LaneCorrection>& corrections) {
  TextTable table(
      {">id", "when", "build", "model", "hardware", "layout", "shape", "outcome", ">predicted", ">measured", ">error"});
  const launch::ThisBuild here;
  bool has_notes = false;
  for (const Entry& entry : entries) {
    const Pair peak = peak_of(entry);
    const std::vector<std::string> notes = here.notes_of(entry);
    has_notes |= !notes.empty();
    const char* build = here.wrote(entry.signature) ? "this" : "another";
    table.add({std::to_string(entry.id), catalog::last_written(entry), build + std::string(notes.empty() ? "" : " *"),
               entry.signature.model, entry.signature.hardware, entry.signature.layout, entry.signature.shape,
               outcome_text(entry), bytes_text(peak.predicted), bytes_text(peak.measured), percent_text(peak.error())});
  }
  std::string text = table.to_text();
  if (has_notes) text += "* has notes: megacpp catalog show ID\n";
  const std::string corrected = to_text(corrections);
  return text + (corrected.empty() ? "" : "\n" + corrected);
}

Json list_json(const std::vector<Entry>& entries, const std::vector<LaneCorrection>& corrections) {
  const launch::ThisBuild here;
  Json rows = Json::array(), lanes = Json::array();
  for (const Entry& entry : entries) {
    const Pair peak = peak_of(entry);
    const auto fits = std::count_if(entry.outcomes.begin(), entry.outcomes.end(),
                                    [](const Outcome& outcome) { return outcome.fits; });
    Json row = signature_json(entry, here);
    row["outcome"] = entry.outcomes.empty() ? Json() : Json(entry.outcomes.back().ending());
    row["fits"] = fits;
    row["fails"] = static_cast<int64_t>(entry.outcomes.size()) - fits;
    row["start_rung"] = entry.starts.empty() ? Json() : Json(entry.starts.back().rung);
    row["predicted_bytes"] = base::record_json(peak.predicted);
    row["measured_bytes"] = base::record_json(peak.measured);
    row["error"] = base::record_json(peak.error());
    rows.push_back(std::move(row));
  }
  for (const LaneCorrection& lane : corrections) lanes.push_back(lane_correction_json(lane));
  return Json{{"entries", rows}, {"corrections", lanes}};
}

std::string entry_text(const Entry& entry, const std::vector<double>& corrected) {
  const catalog::Signature& signature = entry.signature;
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<13} {}\n", name, printable_in_line(value));
  };
  add("entry", fmt::format("{} (key {})", entry.id, catalog::key_text(signature)));
  add("model", fmt::format("{} ({})", signature.model, signature.model_hash));
  add("hardware", signature.hardware);
  add("layout", signature.layout);
  add("features", signature.features);
  add("shape", signature.shape);
  add("build", catalog::to_text(signature.build));
  for (const std::string& note : launch::ThisBuild().notes_of(entry)) add("note", note);
  if (!entry.outcomes.empty()) text += launches_text(entry);
  text += reports_text(entry);
  if (!entry.starts.empty()) text += starts_text(entry);
  if (!entry.samples.empty()) text += samples_text(entry, corrected);
  return text;
}

Json entry_json(const Entry& entry, const std::vector<double>& corrected) {
  Json object = signature_json(entry, launch::ThisBuild());
  object["launches"] = Json::array();
  object["starts"] = Json::array();
  object["measurements"] = Json::array();
  for (const Outcome& outcome : entry.outcomes) object["launches"].push_back(json_of(outcome));
  for (const catalog::Start& start : entry.starts) object["starts"].push_back(json_of(start));
  for (size_t i = 0; i < entry.samples.size(); ++i)
    object["measurements"].push_back(json_of(entry.samples[i], corrected[i]));
  return object;
}

std::string subject_line(const catalog::Signature& signature) {
  return fmt::format("{} on {}, {}, {}", signature.model, signature.hardware, signature.layout, signature.shape);
}

std::string counts_text(const catalog::Forgotten& forgotten) {
  return fmt::format("{}, {}, {}", base::counted(forgotten.outcomes, "launch"),
                     base::counted(forgotten.starts, "start"), base::counted(forgotten.samples, "measurement"));
}

}  // namespace megacpp::cli
