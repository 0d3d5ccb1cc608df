// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/text.h"

#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/timed_part.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/evidence/receipt/answers.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::receipt {
namespace {

using base::human_seconds;
using memory::human_bytes;

constexpr const char* kUnknown = "not known";

std::string seconds_or_unknown(const std::optional<double>& seconds) {
  return seconds ? human_seconds(*seconds) : kUnknown;
}
std::string bytes_or_unknown(const std::optional<int64_t>& bytes) { return bytes ? human_bytes(*bytes) : kUnknown; }

/// A name and what is said of it; nothing where that is empty. Names of runs, models and files are in it.
std::string line(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("{:<12} {}\n", name, base::printable_in_line(text));
}

std::string verdict_lines(const Verdict& verdict) {
  std::string text = line("verdict", to_text(verdict));
  for (const Reason& reason : verdict.reasons) text += line("", reason.sentence);
  return text;
}

std::string phase_text(const std::optional<Phase>& phase) {
  if (!phase) return kUnknown;
  return fmt::format("{} from step {}, {} each, {:.0f} tokens/s", base::counted(phase->steps, "step"),
                     phase->first_step, human_seconds(phase->step_seconds()), phase->tokens_per_second());
}

std::string spread_text(const Times& times) {
  if (!times.spread) return kUnknown;
  const Spread& spread = *times.spread;
  return fmt::format("{} of {}: median {}, middle half {} to {}, least {}, most {}",
                     base::counted(std::ssize(times.samples.seconds), "sample"),
                     base::counted(times.samples.steps_each, "step"), human_seconds(spread.median),
                     human_seconds(spread.lower_quartile), human_seconds(spread.upper_quartile),
                     human_seconds(spread.least), human_seconds(spread.most));
}

std::string start_text(const std::vector<StartPart>& start) {
  std::vector<base::TimedPart> parts;
  for (const StartPart& part : start) parts.push_back({.name = part.name, .seconds = part.seconds, .note = part.note});
  return base::to_text(parts);
}

std::string times_text(const Times& times) {
  return line("start", start_text(times.start)) +
         line("compile",
              fmt::format("own passes {}, backend {}, loaded after {}", seconds_or_unknown(times.compile_seconds),
                          seconds_or_unknown(times.backend_compile_seconds), seconds_or_unknown(times.load_seconds))) +
         line("first", phase_text(times.first)) + line("warm-up", phase_text(times.warm_up)) +
         line("steady", phase_text(times.steady)) + line("spread", spread_text(times)) +
         line("predicted", times.predicted_step_seconds ? human_seconds(*times.predicted_step_seconds) : "");
}

std::string mfu_text(const Mfu& mfu) {
  const std::string value = mfu.value ? fmt::format("{:.2f} %", 100 * *mfu.value) : kUnknown;
  const std::string peak = mfu.peak_flops ? fmt::format("{:.4g} FLOP/s, {}", *mfu.peak_flops, mfu.peak) : mfu.peak;
  return line("MFU", value) + line("", mfu.formula) + line("", "peak of a chip: " + peak);
}

std::string counters_text(const Counters& counters) {
  if (!counters.devices) return line("counters", kUnknown);
  const DeviceCounters& devices = *counters.devices;
  std::string compiles;
  for (const Count& cause : devices.compiles) compiles += fmt::format("{} ({}), ", cause.count, cause.what);
  return line("counters",
              fmt::format("compiles {}cache hits {}, executions {}, host syncs {}", compiles.empty() ? "0, " : compiles,
                          devices.cache_hits, devices.executions, devices.host_syncs)) +
         line("", fmt::format("to devices {} in {}, from devices {} in {}", human_bytes(devices.host_to_device.bytes),
                              base::counted(devices.host_to_device.count, "transfer"),
                              human_bytes(devices.device_to_host.bytes), devices.device_to_host.count));
}

std::string memory_text(const Memory& memory) {
  std::string text;
  for (const ChipGroup& group : memory.planned) {
    text += line("planned", fmt::format("{}{}: {} of {}", group.place,
                                        group.chips > 1 ? fmt::format(" and {} alike", group.chips - 1) : "",
                                        human_bytes(group.planned_bytes), bytes_or_unknown(group.limit_bytes)));
    std::string items;
    for (const MemoryItem& item : group.items)
      items += fmt::format("{}{}{} {}", items.empty() ? "" : ", ", item.role,
                           item.family.empty() ? "" : " of " + item.family, human_bytes(item.bytes));
    text += line("", items);
  }
  for (const ChipPeak& chip : memory.measured)
    text += line("measured", fmt::format("{}: {}", chip.place, bytes_or_unknown(chip.measured_bytes)));
  return text;
}

std::string collectives_text(const std::optional<std::vector<Collective>>& collectives) {
  if (!collectives) return line("collectives", "placed by the backend's compiler");
  std::string text;
  for (const Collective& row : *collectives)
    text += line("collective", fmt::format("{} over {}: {} in {} a step{}", row.kind, row.axes, human_bytes(row.bytes),
                                           base::counted(row.calls, "call"),
                                           row.stage > 0 ? fmt::format(", stage {}", row.stage) : ""));
  return text;
}

std::string experts_text(const std::vector<ExpertLoad>& experts) {
  std::string text;
  for (const ExpertLoad& load : experts)
    text += line("experts", fmt::format("{}: the busiest gets {:.2f} times the mean, {:.0f} requests dropped",
                                        load.block, load.imbalance, load.dropped));
  return text;
}

std::string ladder_text(const Ladder& ladder) {
  std::string text = ladder.rung == 0 ? "" : line("ladder", fmt::format("rung {}: {}", ladder.rung, ladder.changes));
  for (const catalog::Reduction& reduction : ladder.tried)
    text += line("tried", fmt::format("rung {} {} {}: {} {}", reduction.rung, reduction.name, reduction.outcome,
                                      reduction.settings, reduction.reason));
  return text;
}

std::string lineage_text(const Lineage& lineage) {
  if (lineage.lock_file.empty()) return line("lineage", "nothing is documented: there is no lock file");
  std::string text = line("lineage", lineage.lock_file);
  if (!lineage.unread.empty()) text += line("", "not compared: " + lineage.unread);
  for (const LineageItem& item : lineage.items)
    text += line("", fmt::format("{} {}: documented {}, found {}", item.state, item.name,
                                 item.documented.empty() ? "nowhere" : item.documented,
                                 item.live.empty() ? "nothing" : item.live));
  return text;
}

std::string versions_text(const Header& header) {
  const Hardware& hardware = header.hardware;
  const std::string machine =
      hardware.processor.empty()
          ? ""
          : hardware.processor +
                (hardware.threads ? fmt::format(", {} a chip", base::counted(*hardware.threads, "thread")) : "");
  return line("machine", machine) +
         line("program",
              fmt::format("{}, {}, recompute {}, {}, buckets {}", header.program.precision, header.program.optimizer,
                          header.program.recompute, header.program.overlap, header.program.buckets)) +
         line("flags", fmt::format("{}", fmt::join(header.program.flags, " "))) +
         line("without", fmt::format("{}", fmt::join(header.program.without, ", "))) +
         line("watched", fmt::format("{}", fmt::join(header.program.watched, ", "))) +
         line("code", header.versions.code) + line("platform", header.versions.platform);
}

}  // namespace

std::string to_text(const Ending& ending) {
  std::string text =
      fmt::format("{} after {} of {} steps", base::text_of(ending.kind), ending.steps, ending.requested_steps);
  if (ending.first_step > 0) text += fmt::format(", the first {} by the run it goes on with", ending.first_step);
  if (!ending.started_at.empty()) text += ", started " + ending.started_at;
  if (!ending.ended_at.empty()) text += ", ended " + ending.ended_at;
  return text;
}

std::string to_text(const Failure& failure) {
  return fmt::format("{}{}{}: {}", failure.code, failure.oom_class.empty() ? "" : " (" + failure.oom_class + ")",
                     failure.where.empty() ? "" : " " + failure.where, failure.got);
}

std::string to_text(const Verdict& verdict) {
  if (verdict.is_comparable()) return "comparable";
  std::string names;
  for (const Reason& reason : verdict.reasons) names += (names.empty() ? "" : ", ") + reason.name;
  return "not comparable: " + names;
}

std::string report_text(const Receipt& receipt) {
  std::string text;
  for (const Question& question : five_questions()) text += line(question.name, receipt.answers.*question.answer);
  const Losses& losses = receipt.losses;
  return text + verdict_lines(receipt.verdict) + "\n" + line("run", receipt.run) +
         line("ending", to_text(receipt.ending)) +
         line("error", receipt.ending.failure ? to_text(*receipt.ending.failure) : "") +
         line("loss", losses.first && losses.last ? fmt::format("{:.4f} -> {:.4f}", *losses.first, *losses.last) : "") +
         line("repeats", receipt.repeats) + times_text(receipt.times) + mfu_text(receipt.mfu) +
         counters_text(receipt.counters) + memory_text(receipt.memory) + collectives_text(receipt.collectives) +
         experts_text(receipt.experts) + ladder_text(receipt.ladder) + versions_text(receipt.header) +
         lineage_text(receipt.lineage);
}

}  // namespace megacpp::receipt
