// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/time_moves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "megacpp/program/memory/report.h"

namespace megacpp::compare {
namespace {

using receipt::Parts;
using receipt::Receipt;

constexpr double kCauseShare = 0.5;  // of a change, for a part to be its cause
constexpr double kSameWork = 0.005;  // relative difference of counts that make no difference
constexpr size_t kMostNotes = 3;

struct PartDef {
  std::string_view name;
  double Parts::*seconds;
};
constexpr std::array<PartDef, 4> kParts = {{{"arithmetic", &Parts::arithmetic},
                                            {"memory", &Parts::memory},
                                            {"links", &Parts::links},
                                            {"bubble", &Parts::bubble}}};

// Seconds of this run's step to seconds for `tokens`.
double scale_to(const Receipt& receipt, double tokens) {
  return receipt.header.batch.tokens > 0 ? tokens / static_cast<double>(receipt.header.batch.tokens) : 1;
}

template <typename Value>
double mean_over(Receipts receipts, double tokens, const Value& value) {
  double sum = 0;
  for (const Receipt& receipt : receipts) sum += value(receipt) * scale_to(receipt, tokens);
  return sum / static_cast<double>(receipts.size());
}

bool all_have_parts(Receipts receipts) {
  return std::ranges::all_of(receipts, [](const Receipt& receipt) { return receipt.times.parts.has_value(); });
}

bool is_other(double before, double after) {
  return std::abs(after - before) > kSameWork * std::max(std::abs(before), std::abs(after));
}

// Bytes of all stages for `tokens`, by axes and kind.
std::map<std::string, double> exchanged(const Receipt& receipt, double tokens) {
  std::map<std::string, double> bytes;
  if (!receipt.collectives) return bytes;
  for (const receipt::Collective& each : *receipt.collectives)
    bytes[each.kind + " over " + each.axes] += static_cast<double>(each.bytes) * scale_to(receipt, tokens);
  return bytes;
}

std::vector<std::string> exchange_notes(const Receipt& before, const Receipt& after, double tokens) {
  std::map<std::string, std::pair<double, double>> moves;
  for (const auto& [what, bytes] : exchanged(before, tokens)) moves[what].first = bytes;
  for (const auto& [what, bytes] : exchanged(after, tokens)) moves[what].second = bytes;
  std::vector<std::pair<double, std::string>> notes;
  for (const auto& [what, bytes] : moves)
    if (is_other(bytes.first, bytes.second))
      notes.emplace_back(
          std::abs(bytes.second - bytes.first),
          fmt::format("{}: {} -> {} a step", what, memory::human_bytes(static_cast<int64_t>(std::llround(bytes.first))),
                      memory::human_bytes(static_cast<int64_t>(std::llround(bytes.second)))));
  std::ranges::stable_sort(notes, std::ranges::greater{}, [](const auto& note) { return note.first; });
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(notes.size(), kMostNotes); ++i) texts.push_back(notes[i].second);
  if (texts.empty() && before.collectives && after.collectives) texts.push_back("the same bytes are exchanged");
  return texts;
}

int64_t fallbacks_of(const Receipt& receipt) {
  int64_t count = 0;
  for (const receipt::Fallback& each : receipt.counters.fallbacks) count += each.count;
  return count;
}

std::vector<std::string> work_notes(const Receipt& before, const Receipt& after, double tokens) {
  std::vector<std::string> notes;
  const double work_before = before.mfu.model_flops * scale_to(before, tokens);
  const double work_after = after.mfu.model_flops * scale_to(after, tokens);
  if (is_other(work_before, work_after))
    notes.push_back(fmt::format("the model's work changed: {:.3g} -> {:.3g} FLOPs", work_before, work_after));
  const std::optional<int64_t> chips_before = before.header.hardware.chips, chips_after = after.header.hardware.chips;
  if (chips_before && chips_after && *chips_before != *chips_after)
    notes.push_back(fmt::format("shared by {} -> {} chips", *chips_before, *chips_after));
  if (before.header.program.recompute != after.header.program.recompute)
    notes.push_back(fmt::format("recompute {} -> {}", before.header.program.recompute, after.header.program.recompute));
  if (fallbacks_of(before) != fallbacks_of(after))
    notes.push_back(fmt::format("ops without a kernel {} -> {}", fallbacks_of(before), fallbacks_of(after)));
  if (notes.empty()) notes.emplace_back("the same work took another time");
  return notes;
}

std::vector<std::string> notes_of(std::string_view part, const Receipt& before, const Receipt& after, double tokens) {
  if (part == "links") return exchange_notes(before, after, tokens);
  if (part == "bubble")
    return {fmt::format("layout {} -> {}", before.header.program.layout, after.header.program.layout)};
  return work_notes(before, after, tokens);
}

std::vector<std::string> stall_notes(Receipts baseline, Receipts other) {
  int64_t before = 0, after = 0;
  for (const Receipt& receipt : baseline) before += receipt.times.data_stalls.value_or(0);
  for (const Receipt& receipt : other) after += receipt.times.data_stalls.value_or(0);
  if (before == after) return {};
  return {fmt::format("steps that waited for data: {} -> {}", before, after)};
}

}  // namespace

TimeMoves time_moves(Receipts baseline, Receipts other) {
  const Receipt &before = baseline.front(), &after = other.front();
  const auto tokens = static_cast<double>(before.header.batch.tokens);
  const auto step = [](const Receipt& receipt) { return receipt.times.steady->step_seconds(); };
  TimeMoves moves{.baseline = mean_over(baseline, tokens, step), .other = mean_over(other, tokens, step)};
  moves.unexplained = moves.change();
  moves.unexplained_notes = stall_notes(baseline, other);
  if (!all_have_parts(baseline) || !all_have_parts(other)) return moves;
  for (const PartDef& def : kParts) {
    const auto seconds = [&def](const Receipt& receipt) { return (*receipt.times.parts).*def.seconds; };
    PartMove move{.part = std::string(def.name),
                  .baseline = mean_over(baseline, tokens, seconds),
                  .other = mean_over(other, tokens, seconds)};
    if (move.change() != 0) move.notes = notes_of(def.name, before, after, tokens);
    moves.unexplained -= move.change();
    moves.parts.push_back(std::move(move));
  }
  std::ranges::stable_sort(moves.parts, std::ranges::greater{},
                           [](const PartMove& move) { return std::abs(move.change()); });
  const PartMove& most = moves.parts.front();
  if (moves.change() != 0 && most.change() / moves.change() >= kCauseShare) moves.cause = most.part;
  return moves;
}

std::string aspect_of(const std::string& key) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kAspects = {
      {"layout.zero", "weights kept or gathered"},
      {"layout.reshard_after_forward", "weights kept or gathered"},
      {"layout.policy", "weights kept or gathered"},
      {"layout.context_", "sequence split"},
      {"layout.sequence_parallel", "sequence split"},
      {"layout.load_balance", "sequence split"},
      {"layout.prefetch", "overlap"},
      {"layout.bucket_bytes", "overlap"},
      {"layout.schedule", "overlap"},
      {"layout.", "topology"},
      {"hardware.", "topology"},
      {"train.batch", "compile shape"},
      {"train.sequence", "compile shape"},
      {"train.micro_steps", "compile shape"},
  };
  for (const auto& [begin, aspect] : kAspects)
    if (key.starts_with(begin)) return std::string(aspect);
  return "";
}

}  // namespace megacpp::compare
