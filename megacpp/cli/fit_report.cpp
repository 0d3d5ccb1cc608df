// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/fit_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/chip_memory.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/fit/fields.h"
#include "megacpp/hardware/fit/misfit.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::cli {
namespace {

using base::human_seconds;
using fit::Found;
using memory::human_bytes;

constexpr size_t kPictureWidth = 72, kPictureHeight = 16;  // characters
constexpr size_t kExamples = 3;                            // of layouts that are refused for one reason

/// Of a point of the picture that is not on the front.
char sign_of(fit::FitVerdict verdict) {
  switch (verdict) {
    case fit::FitVerdict::fits:
      return 'o';
    case fit::FitVerdict::close:
      return '~';
    case fit::FitVerdict::does_not_fit:
      return 'x';
  }
  return '?';
}

std::string recompute_text(const recipe::Recipe& recipe) {
  std::vector<std::string> levels;
  for (const char letter : recipe::recompute_letters(recipe.model))
    levels.emplace_back(base::text_of(recipe::recompute_level(recipe, letter)));
  const bool alike = std::ranges::all_of(levels, [&](const std::string& level) { return level == levels[0]; });
  return alike ? levels[0] : fmt::format("{}", fmt::join(levels, "/"));
}

ShownStep predicted_step(const Found& one) {
  return {.seconds = one.time.seconds(), .tokens_per_second = one.tokens_per_second(), .mfu = one.time.mfu};
}

ShownMemory planned_memory(const Found& one) {
  const fit::ChipGroup& worst = one.fit.worst();
  return {.needed = worst.needed(),
          .limit = worst.limit.bytes.value(),
          .shared_limit = worst.limit.machine ? worst.limit.machine->bytes : 0,
          .free = worst.free_bytes().value(),
          .verdict = one.fit.verdict()};
}

std::vector<std::string> layout_cells(const Found& one, const ShownMemory& memory, const ShownStep& step) {
  return {one.layout,
          fmt::format("{} x {}", one.recipe.train.batch, one.recipe.train.micro_steps),
          recompute_text(one.recipe),
          human_bytes(memory.needed),
          memory.share_text(),
          memory.free_text(),
          step.seconds_text(),
          fmt::format("{:.0f}", step.tokens_per_second),
          fmt::format("{:.1f} %", 100 * step.mfu),
          to_text(one.regime)};
}

const std::vector<std::string> kHeadings = {"layout", ">batch",  "recompute", ">worst chip", ">of limit",
                                            ">free",  ">a step", ">tokens/s", ">MFU",        "regime"};

const catalog::Ranked* known_of(const FitAnswer& answer, size_t found) {
  const auto at = std::ranges::find(answer.known, found, &catalog::Ranked::candidate);
  return at == answer.known.end() ? nullptr : &*at;
}

/// What the hardware said of it, where it was asked.
const launch::Confirmed* confirmed_of(const FitAnswer& answer, size_t found) {
  const auto at = std::ranges::find(answer.confirmed, found, &launch::Confirmed::found);
  return at == answer.confirmed.end() ? nullptr : &*at;
}

/// Whether it was seen to run out of memory, now or before.
bool has_failed(const FitAnswer& answer, size_t found) {
  if (const launch::Confirmed* asked = confirmed_of(answer, found); asked && !asked->out_of_memory.empty()) return true;
  const catalog::Ranked* known = known_of(answer, found);
  return known != nullptr && known->standing == catalog::Standing::failed;
}

/// Whether it was seen to fit.
bool has_run(const FitAnswer& answer, size_t found) {
  if (const launch::Confirmed* asked = confirmed_of(answer, found); asked && asked->succeeded()) return true;
  const catalog::Ranked* known = known_of(answer, found);
  return known != nullptr && known->standing == catalog::Standing::runs;
}

bool says_something(const catalog::Ranked& known) {
  return known.standing == catalog::Standing::runs || known.standing == catalog::Standing::failed;
}

/// The first few whose degrees differ, and how many more there are.
std::vector<std::string> examples_of(const fit::Refused& refused) {
  std::vector<std::string> examples;
  std::vector<plan::Changes> seen;
  for (const fit::Refused::Layout& one : refused.layouts) {
    plan::Changes degrees = one.settings;
    std::erase_if(degrees, [](const plan::Change& change) { return !change.key.starts_with("layout."); });
    if (seen.size() == kExamples || std::ranges::find(seen, degrees) != seen.end()) continue;
    examples.push_back(fmt::format("{} ({})", set_words(one.settings), one.got));
    seen.push_back(std::move(degrees));
  }
  if (const size_t more = refused.layouts.size() - examples.size(); more > 0)
    examples.push_back(fmt::format("and {} more", more));
  return examples;
}

/// What the smallest needs and what there is.
std::string lacking_text(const hw::Slice& slice, const Found& smallest) {
  const fit::ChipGroup& worst = smallest.fit.worst();
  const std::optional<fit::SharedMachine>& machine = worst.limit.machine;
  if (!machine)
    return fmt::format("nothing fits: the least that was found needs {}, a chip of {} has {}\n",
                       human_bytes(worst.needed()), slice.name, human_bytes(*worst.limit.bytes));
  const std::string snapshot =
      machine->snapshot > 0 ? fmt::format(" and {} for the snapshot of checkpoints", human_bytes(machine->snapshot))
                            : "";
  return fmt::format("nothing fits: the least that was found needs {}{}, this machine has {}\n",
                     human_bytes(machine->needed - machine->snapshot), snapshot, human_bytes(machine->bytes));
}

std::string left_out_text(const fit::LayoutSearch& search) {
  std::string text;
  for (const fit::Dropped& one : search.dropped) text += fmt::format("  {:>6}  {}\n", one.layouts, one.reason);
  for (const fit::Refused& one : search.refused) {
    text += fmt::format("  {:>6}  {}\n", one.layouts.size(), one.reason);
    for (const std::string& example : examples_of(one)) text += fmt::format("  {:>6}    {}\n", "", example);
  }
  return text.empty() ? text : "left out:\n" + text;
}

Json left_out_json(const fit::LayoutSearch& search) {
  Json left_out = Json::array();
  for (const fit::Dropped& one : search.dropped) left_out.push_back({{"reason", one.reason}, {"layouts", one.layouts}});
  for (const fit::Refused& one : search.refused) {
    Json refused = Json::array();
    for (const fit::Refused::Layout& layout : one.layouts)
      refused.push_back({{"set", plan::overrides_of(layout.settings)}, {"got", layout.got}});
    left_out.push_back({{"reason", one.reason}, {"layouts", one.layouts.size()}, {"refused", refused}});
  }
  return left_out;
}

Json found_json(const Found& one, const ShownMemory& memory) {
  const fit::ChipGroup& worst = one.fit.worst();
  Json roles;
  for (const memory::RoleBytes& role : one.roles) roles[std::string(ir::role_name(role.role))] = role.bytes;
  return {{"layout", one.layout},
          // Of two candidates of one layout the batch or recompute differ.
          {"set", plan::overrides_of(one.changes)},
          {"batch", one.recipe.train.batch},
          {"micro_steps", one.recipe.train.micro_steps},
          {"sequence", one.recipe.train.sequence},
          {"fits", memory.verdict == fit::FitVerdict::fits},
          {"verdict", fit::fit_verdict_name(memory.verdict)},
          {"worst_chip", worst.place},
          {"where", worst.where},
          {"needed_bytes", memory.needed},
          {"measured", memory.is_measured},
          {"planned_bytes", worst.planned},
          {"limit_bytes", memory.limit},
          {"free_bytes", memory.free},
          {"least_needed_bytes", worst.reservation.least},
          {"most_needed_bytes", worst.reservation.most},
          {"bytes_by_role", roles},
          {"step_seconds", one.time.seconds()},
          {"step_limit_seconds", one.time.limit},
          {"step_least_seconds", one.time.range.least},
          {"step_most_seconds", base::record_json(one.time.range.most)},
          {"tokens_per_second", one.tokens_per_second()},
          {"mfu", one.time.mfu},
          {"bound_by", fit::part_name(one.time.largest())},
          {"regime", fit::regime_name(one.regime.kind)},
          {"regime_because", one.regime.because},
          {"axes", base::record_json(one.islands)},
          {"crossings", base::record_json(one.crossings)},
          {"estimated_bytes", one.quick_estimate.bytes},
          {"estimated_seconds", one.quick_estimate.seconds},
          {"planned_once", one.planned_from ? Json(to_text(*one.planned_from)) : Json()}};
}

std::string bytes_or_dash(const std::optional<int64_t>& bytes) { return bytes ? std::to_string(*bytes) : "-"; }

std::string outcome_of(const launch::Confirmed& one) {
  if (one.succeeded()) return one.is_compiled ? "fits" : "ran";
  return one.error.empty() ? "out of memory: " + one.out_of_memory : "failed: " + one.error;
}

std::string off_text(double planned, double measured) {
  return fmt::format("{:+.0f} %", 100 * (planned / measured - 1));
}

/// Of runs on this machine.
std::vector<std::string> run_cells(const std::string& layout, const launch::Confirmed& one) {
  const std::optional<double> seconds = one.measured_seconds;
  return {layout,
          bytes_or_dash(one.planned_bytes),
          bytes_or_dash(one.measured_bytes),
          human_seconds(one.predicted_seconds),
          seconds ? human_seconds(*seconds) : "-",
          seconds ? off_text(one.predicted_seconds, *seconds) : "-",
          outcome_of(one)};
}

/// Of what a compiler said.
std::vector<std::string> compiled_cells(const std::string& layout, const launch::Confirmed& one) {
  const bool is_known = one.planned_bytes && one.measured_bytes;
  return {layout, bytes_or_dash(one.planned_bytes), bytes_or_dash(one.measured_bytes),
          is_known ? off_text(static_cast<double>(*one.planned_bytes), static_cast<double>(*one.measured_bytes)) : "-",
          outcome_of(one)};
}

std::string confirmed_text(const FitAnswer& answer) {
  if (!answer.no_confirmation.empty()) return "\n" + answer.no_confirmation + "\n";
  if (answer.confirmed.empty()) return {};
  const bool is_compiled = answer.confirmed.front().is_compiled;
  const std::vector<std::string> of_runs = {"run here",       ">planned", ">measured", ">predicted step",
                                            ">measured step", ">off",     "outcome"};
  const std::vector<std::string> of_compiler = {"compiled for " + answer.slice.name, ">planned", ">reserved", ">off",
                                                "outcome"};
  TextTable table(is_compiled ? of_compiler : of_runs);
  for (const launch::Confirmed& one : answer.confirmed) {
    const std::string& layout = answer.search.found[one.found].layout;
    table.add(is_compiled ? compiled_cells(layout, one) : run_cells(layout, one));
  }
  const std::string rules = answer.other_compiler.empty() ? "" : "rules " + answer.other_compiler + "\n";
  return "\n" + table.to_text() + rules;
}

Json confirmed_json(const Found& found, const launch::Confirmed& one) {
  Json json = {{"layout", found.layout},
               {"set", plan::overrides_of(found.changes)},
               {"by", one.is_compiled ? "compiler" : "run"},
               {"out_of_memory", one.out_of_memory},
               {"error", one.error}};
  if (one.is_compiled) {
    json["planned_bytes"] = base::record_json(one.planned_bytes);
    json["reserved_bytes"] = base::record_json(one.measured_bytes);
    json["limit_bytes"] = base::record_json(one.limit_bytes);
    return json;
  }
  json["planned_peak_bytes"] = base::record_json(one.planned_bytes);
  json["measured_peak_bytes"] = base::record_json(one.measured_bytes);
  json["predicted_step_seconds"] = one.predicted_seconds;
  json["measured_step_seconds"] = base::record_json(one.measured_seconds);
  return json;
}

}  // namespace

std::vector<size_t> FitAnswer::order() const {
  std::vector<size_t> indices(search.found.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  const std::vector<fit::FrontPoint> shown = points();
  std::ranges::stable_sort(indices, std::less<>(), [&](size_t found) {
    const bool may_fit = shown[found].verdict != fit::FitVerdict::does_not_fit;
    return std::tuple(shown[found].verdict, has_failed(*this, found), may_fit ? shown[found].seconds : 0.0);
  });
  return indices;
}

std::string ShownMemory::share_text() const {
  const auto percent = [](int64_t bytes, int64_t of) {
    return fmt::format("{:.0f} %", 100.0 * static_cast<double>(bytes) / static_cast<double>(of));
  };
  if (shared_limit > 0) return percent(shared_limit - free, shared_limit);
  return limit > 0 ? percent(needed, limit) : "-";
}

std::string ShownMemory::free_text() const {
  // What is expected may be above the limit and the least that a compiler may reserve below it.
  if (verdict == fit::FitVerdict::close && free < 0) return human_bytes(-free) + " over, close";
  const std::string text = (free < 0 ? "-" : "") + human_bytes(std::abs(free));
  if (verdict == fit::FitVerdict::close) return text + " close";
  if (verdict == fit::FitVerdict::does_not_fit && free >= 0) return text + ", ran out";
  return is_measured ? text + " measured" : text;
}

std::string close_note(const FitAnswer& answer) {
  bool is_any_close = false, is_any_over = false;
  for (size_t i = 0; i < answer.search.found.size(); ++i) {
    const ShownMemory memory = answer.memory_of(i);
    if (memory.verdict != fit::FitVerdict::close) continue;
    is_any_close = true;
    is_any_over = is_any_over || memory.free < 0;
  }
  if (!is_any_close) return {};
  std::string text =
      fmt::format("close: the limit is within what a compiler may reserve: {}, for the fastest of them --confirm",
                  deciding_command(answer.slice, answer.recipe.backend));
  if (is_any_over)
    text += "; over: more is expected than the limit, and the least that a compiler may reserve is below it";
  if (const std::optional<size_t> faster = answer.faster_close())
    text += fmt::format("; the fastest that is close takes {} a step: {}", answer.step_of(*faster).seconds_text(),
                        answer.search.found[*faster].layout);
  return text;
}

std::string ShownStep::seconds_text() const { return human_seconds(seconds) + (is_measured ? " measured" : ""); }

ShownStep FitAnswer::step_of(size_t found) const {
  ShownStep step = predicted_step(search.found[found]);
  const launch::Confirmed* asked = confirmed_of(*this, found);
  const catalog::Ranked* ranked = known_of(*this, found);
  const bool is_timed = asked != nullptr && asked->measured_seconds;
  if (!is_timed && (ranked == nullptr || !ranked->seconds)) return step;
  const double seconds = is_timed ? *asked->measured_seconds : *ranked->seconds;
  const double faster = step.seconds / seconds;
  return {.seconds = seconds,
          .tokens_per_second = step.tokens_per_second * faster,
          .mfu = step.mfu * faster,
          .is_measured = is_timed || ranked->is_measured};
}

ShownMemory FitAnswer::memory_of(size_t found) const {
  ShownMemory memory = planned_memory(search.found[found]);
  const launch::Confirmed* asked = confirmed_of(*this, found);
  if (asked != nullptr && asked->measured_bytes) {
    memory.free += memory.needed - *asked->measured_bytes;
    memory.needed = *asked->measured_bytes;
    memory.is_measured = true;
  }
  if (has_run(*this, found)) memory.verdict = fit::FitVerdict::fits;
  if (has_failed(*this, found)) memory.verdict = fit::FitVerdict::does_not_fit;
  return memory;
}

fit::FitVerdict FitAnswer::verdict() const {
  const std::vector<size_t> indices = order();
  return indices.empty() ? fit::FitVerdict::does_not_fit : memory_of(indices.front()).verdict;
}

std::optional<size_t> FitAnswer::faster_close() const {
  const std::vector<fit::FrontPoint> shown = points();
  const std::vector<size_t> indices = order();
  const auto fastest =
      std::ranges::find(indices, fit::FitVerdict::close, [&shown](size_t found) { return shown[found].verdict; });
  if (fastest == indices.end() || shown[*fastest].seconds >= shown[indices.front()].seconds) return std::nullopt;
  return *fastest;
}

std::vector<fit::FrontPoint> FitAnswer::points() const {
  std::vector<fit::FrontPoint> all;
  for (size_t i = 0; i < search.found.size(); ++i) {
    const ShownMemory memory = memory_of(i);
    all.push_back({.bytes = memory.needed, .seconds = step_of(i).seconds, .verdict = memory.verdict});
  }
  return all;
}

bool FitAnswer::is_on_front(size_t found) const { return std::ranges::find(front, found) != front.end(); }

std::string set_words(const plan::Changes& changes) {
  std::vector<std::string> words;
  for (const plan::Change& change : changes) words.push_back("--set " + change.key + "=" + change.value);
  return words.empty() ? "as it is" : fmt::format("{}", fmt::join(words, " "));
}

std::string fit_text(const FitAnswer& answer, size_t top) {
  const fit::LayoutSearch& search = answer.search;
  std::string text = fmt::format(
      "{} on {}: {} products of degrees, {} legal variants with ZeRO and micro-steps, {} compiled, {:.1f} s\n",
      base::printable_in_line(answer.recipe.name), base::printable_in_line(answer.slice.name), search.considered,
      search.variants, search.found.size(), answer.seconds);
  const bool is_too_large = !search.may_fit() && answer.verdict() == fit::FitVerdict::does_not_fit;
  if (is_too_large) text += lacking_text(answer.slice, search.found.front());
  if (const auto& once = search.found.front().planned_from) text += to_text(*once) + "\n";
  text += left_out_text(search);
  text += search.is_complete() ? "everything that may fit was compiled: the fastest is the best there is\n"
                               : fmt::format(
                                     "{} more with a level of recompute were not compiled, being estimated "
                                     "slower or larger: --tries compiles more\n",
                                     search.left);
  std::vector<std::string> headings = {"", ">no"};
  headings.insert(headings.end(), kHeadings.begin(), kHeadings.end());
  TextTable table(headings);
  std::string words;
  size_t number = 0;
  const std::optional<size_t> faster_close = answer.faster_close();
  for (const size_t index : answer.order()) {
    ++number;
    if (number > top && !answer.is_on_front(index) && index != faster_close) continue;
    std::vector<std::string> cells = {answer.is_on_front(index) ? "*" : "", std::to_string(number)};
    const Found& one = search.found[index];
    for (std::string& cell : layout_cells(one, answer.memory_of(index), answer.step_of(index)))
      cells.push_back(std::move(cell));
    table.add(std::move(cells));
    words += fmt::format("  {:>2}  {}\n", number, set_words(one.changes));
    for (const fit::Crossing& crossing : one.crossings)
      words += "      " + base::printable_in_line(fit::to_text(crossing)) + "\n";
    if (const catalog::Ranked* known = known_of(answer, index); known && says_something(*known))
      words += "      " + base::printable_in_line(known->reason) + "\n";
  }
  text += "\n" + table.to_text() + "* nothing that was compiled is better in both bytes and time\n";
  text += "a step and MFU: " + base::printable_in_line(answer.step_basis) + "\n";
  if (const std::string note = close_note(answer); !note.empty()) text += base::printable_in_line(note) + "\n";
  text += to_text(answer.corrections);
  if (is_too_large) return text + confirmed_text(answer);
  text += "\nto run one:\n" + words;
  text += "\n" + scatter_text(answer);
  return text + confirmed_text(answer);
}

std::string scatter_text(const FitAnswer& answer) {
  const std::vector<Found>& found = answer.search.found;
  if (found.empty()) return {};
  const std::vector<fit::FrontPoint> points = answer.points();
  const auto [fastest, slowest] = std::ranges::minmax(points, std::less<>(), &fit::FrontPoint::seconds);
  const double limit = static_cast<double>(found.front().fit.worst().limit.bytes.value());
  double most = 0;
  for (const fit::FrontPoint& point : points) most = std::max(most, static_cast<double>(point.bytes));
  // Far beyond everything the limit would press all points together.
  if (limit < 4 * most) most = std::max(most, limit);
  const auto column = [&](double bytes) {
    return static_cast<size_t>(std::llround(bytes / most * static_cast<double>(kPictureWidth - 1)));
  };
  const double last = slowest.seconds, range = std::max(last - fastest.seconds, last * 1e-9);
  const auto row = [&](double of_step) {
    return static_cast<size_t>(std::llround((last - of_step) / range * static_cast<double>(kPictureHeight - 1)));
  };
  std::vector<std::string> lines(kPictureHeight, std::string(kPictureWidth, ' '));
  if (limit <= most)
    for (std::string& line : lines) line[column(limit)] = '|';
  const auto mark = [&](const fit::FrontPoint& point, char sign) {
    lines[row(point.seconds)][column(static_cast<double>(point.bytes))] = sign;
  };
  for (const fit::FrontPoint& point : points) mark(point, sign_of(point.verdict));
  for (const size_t i : answer.front) mark(points[i], '*');
  std::string text =
      fmt::format("{:>10} a step; * front, o beside it, ~ close, x does not fit, | limit\n", human_seconds(last));
  for (const std::string& line : lines) text += fmt::format("{:>10} {}\n", "", "|" + line);
  text += fmt::format("{:>10} +{}\n", human_seconds(fastest.seconds), std::string(kPictureWidth, '-'));
  return text + fmt::format("{:>10} 0{:>{}}\n", "", human_bytes(static_cast<int64_t>(most)) + " on the worst chip",
                            kPictureWidth);
}

Json fit_json(const FitAnswer& answer) {
  const fit::LayoutSearch& search = answer.search;
  Json found = Json::array(), front = Json::array(), confirmed = Json::array();
  Json corrections = Json::array();
  for (const LaneCorrection& lane : answer.corrections) corrections.push_back(to_json(lane));
  const std::vector<size_t> order = answer.order();
  for (size_t place = 0; place < order.size(); ++place) {
    Json json = found_json(search.found[order[place]], answer.memory_of(order[place]));
    const catalog::Ranked* known = known_of(answer, order[place]);
    if (known != nullptr) json["known"] = known->reason;
    if (known != nullptr || confirmed_of(answer, order[place]) != nullptr) {
      const ShownStep step = answer.step_of(order[place]);
      json["ranked_by"] = {{"step_seconds", step.seconds}, {"measured", step.is_measured}};
    }
    found.push_back(std::move(json));
    if (answer.is_on_front(order[place])) front.push_back(place);
  }
  for (const launch::Confirmed& one : answer.confirmed)
    confirmed.push_back(confirmed_json(search.found[one.found], one));
  Json json = {{"name", answer.recipe.name},
               {"hardware", answer.slice.name},
               {"fits", answer.verdict() == fit::FitVerdict::fits},
               {"verdict", fit::fit_verdict_name(answer.verdict())},
               {"considered", search.considered},
               {"legal", search.variants},
               {"compiled", search.found.size()},
               {"not_compiled", search.left},
               {"complete", search.is_complete()},
               {"dropped", left_out_json(search)},
               {"candidates", found},
               {"front", front},
               {"confirmed", confirmed},
               {"other_compiler", answer.other_compiler},
               {"corrections", corrections},
               {"seconds", answer.seconds},
               {"step_basis", answer.step_basis}};
  if (!answer.no_confirmation.empty()) json["no_confirmation"] = answer.no_confirmation;
  return json;
}

std::string growth_text(const std::string& hardware, const recipe::Recipe& recipe, const fit::Growth& growth) {
  const std::string shown_hardware = base::printable_in_line(hardware);
  const bool is_batch = growth.what == fit::Grown::batch;
  std::vector<std::string> headings = {is_batch ? ">batch" : ">sequence"};
  headings.insert(headings.end(), kHeadings.begin(), kHeadings.end());
  TextTable table(headings);
  const auto value_of = [&](const Found& one) { return is_batch ? one.recipe.train.batch : one.recipe.train.sequence; };
  std::vector<const Found*> tried;
  for (const Found& one : growth.tried) tried.push_back(&one);
  std::ranges::stable_sort(tried, std::less<>(), [&](const Found* one) { return value_of(*one); });
  for (const Found* one : tried) {
    std::vector<std::string> cells = {std::to_string(value_of(*one))};
    for (std::string& cell : layout_cells(*one, planned_memory(*one), predicted_step(*one)))
      cells.push_back(std::move(cell));
    table.add(std::move(cells));
  }
  std::string text =
      fmt::format("{} on {}: {} in multiples of {}\n\n{}", base::printable_in_line(recipe.name), shown_hardware,
                  is_batch ? "sequences per micro-step" : "tokens per sequence", growth.unit, table.to_text());
  if (!growth.best) return text + "\nnot even the smallest fits\n";
  const Found& best = growth.tried[*growth.best];
  text += fmt::format("\nlargest {}: {} (requested: {})\n  {}\n", is_batch ? "batch" : "sequence", value_of(best),
                      is_batch ? recipe.train.batch : recipe.train.sequence, set_words(best.changes));
  if (growth.verdict() == fit::FitVerdict::close) text += "close: none surely fits, by what a compiler may reserve\n";
  if (growth.largest_close)
    text += fmt::format("close up to {}: only the compiler of {} can tell\n",
                        value_of(growth.tried[*growth.largest_close]), shown_hardware);
  if (is_batch)
    text += fmt::format("the global batch becomes {} sequences: lower train.micro_steps to keep it\n",
                        best.recipe.train.batch * best.recipe.train.micro_steps);
  if (!is_batch) text += "another sequence is another experiment: losses cannot be compared with those of the recipe\n";
  if (!growth.why.empty()) text += "not memory but the recipe ends it: " + base::printable_in_line(growth.why) + "\n";
  return text;
}

Json growth_json(const std::string& hardware, const recipe::Recipe& recipe, const fit::Growth& growth) {
  Json tried = Json::array();
  for (const Found& one : growth.tried) tried.push_back(found_json(one, planned_memory(one)));
  Json json = {{"name", recipe.name},
               {"hardware", hardware},
               {"grown", growth.what == fit::Grown::batch ? "batch" : "sequence"},
               {"changed_experiment", growth.what == fit::Grown::sequence},
               {"unit", growth.unit},
               {"fits", growth.verdict() == fit::FitVerdict::fits},
               {"verdict", fit::fit_verdict_name(growth.verdict())},
               {"tried", tried}};
  const auto of = [&growth](const std::optional<size_t>& index) {
    return index ? found_json(growth.tried[*index], planned_memory(growth.tried[*index])) : Json();
  };
  json["best"] = of(growth.best);
  json["largest_close"] = of(growth.largest_close);
  if (!growth.why.empty()) json["ended_by"] = growth.why;
  return json;
}

base::Error no_layout(const FitAnswer& answer) {
  const fit::LayoutSearch& search = answer.search;
  const bool is_none_legal = search.refused.empty();
  std::vector<std::string> reasons;
  for (const fit::Dropped& one : search.dropped) reasons.push_back(fmt::format("{} times {}", one.layouts, one.reason));
  for (const fit::Refused& one : search.refused)
    reasons.push_back(
        fmt::format("{} times {}: {}", one.layouts.size(), one.reason, fmt::join(examples_of(one), ", ")));
  return {base::Code::E1401,
          {.where = answer.slice.name,
           .got = fmt::format("{} products of degrees and {}: {}", search.considered,
                              is_none_legal ? "no legal one" : "none that compiles", fmt::join(reasons, "; ")),
           .wanted = "a layout that " + answer.recipe.name + " can take",
           .next = is_none_legal ? "take another number of chips, or raise train.batch or train.micro_steps"
                                 : "take the settings of one to megacpp plan, which says what to change for it"}};
}

base::Error nothing_fits(const std::string& hardware, const Found& smallest) {
  const fit::ChipGroup& worst = smallest.fit.worst();
  std::vector<std::string> roles;
  for (const memory::RoleBytes& role : smallest.roles)
    roles.push_back(fmt::format("{} {}", ir::role_name(role.role), human_bytes(role.bytes)));
  return {fit::misfit_code(worst),
          {.where = fmt::format("{}, {} {}, running {}", hardware, worst.place, worst.where,
                                fit::subject_text(smallest.recipe)),
           .got = fmt::format("the least that was found needs {} ({}): {}; {} too much", human_bytes(worst.needed()),
                              fmt::join(roles, ", "), smallest.layout, human_bytes(-worst.free_bytes().value())),
           .wanted = fit::wanted_bytes(worst),
           .next = worst.limit_is_wrong()
                       ? "raise hardware.limit or the chip's own in hardware.limits, or take more chips"
                       : "take more chips or chips with more memory, or make the model, the sequence or the batch "
                         "smaller"}};
}

std::optional<base::Error> refusal_of(const FitAnswer& answer) {
  if (answer.verdict() != fit::FitVerdict::does_not_fit) return std::nullopt;
  const std::vector<Found>& found = answer.search.found;
  const auto planned = std::ranges::count_if(found, [](const Found& one) { return one.fit.may_fit(); });
  if (planned == 0) return nothing_fits(answer.slice.name, found.front());
  return base::Error(
      base::Code::E2001,
      {.where = fmt::format("{}, running {}", answer.slice.name, fit::subject_text(answer.recipe)),
       .got = fmt::format("{} layouts that may fit as planned, each of which ran out of memory now or before", planned),
       .wanted = "one that fits",
       .next = "look at more layouts with --tries, take more chips, or make the batch or the model smaller"});
}

}  // namespace megacpp::cli
