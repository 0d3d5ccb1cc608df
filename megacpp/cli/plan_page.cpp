// SPDX-License-Identifier: Apache-2.0
// A plan as one HTML page with pictures.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "megacpp/cli/layout_report.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/evidence/report/html.h"
#include "megacpp/evidence/report/svg.h"
#include "megacpp/hardware/fit/step_basis.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/print.h"

namespace megacpp::cli {
namespace {

using base::human_seconds;
using memory::human_bytes;
using report::Table;

std::string bytes_label(double bytes) { return human_bytes(std::llround(bytes)); }

std::string letter_label(const std::string& letter) { return letter.empty() ? "outside blocks" : letter; }

double as_number(int64_t bytes) { return static_cast<double>(bytes); }

/// Letters in the order of their names, over all plans of the pipeline.
std::vector<std::string> letters_of(const compile::Compiled& compiled) {
  std::map<std::string, bool> seen;
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const memory::Item& item : stage.memory.items) seen[item.letter] = true;
  std::vector<std::string> letters;
  for (const auto& [letter, is_seen] : seen) letters.push_back(letter);
  return letters;
}

std::vector<std::string> letter_labels(const std::vector<std::string>& letters) {
  std::vector<std::string> labels;
  for (const std::string& letter : letters) labels.push_back(letter_label(letter));
  return labels;
}

/// Every group of chips against its limit.
std::string chips_picture(const PlanReport& r) {
  const std::vector<std::string> letters = letters_of(r.estimate.compiled);
  report::BarChart chart{.series = letter_labels(letters), .bars = {}, .text = bytes_label};
  chart.series.push_back("padding");
  chart.series.push_back("code");
  for (const fit::ChipGroup& group : r.estimate.fit.groups) {
    const memory::MemoryPlan& plan = r.estimate.compiled.stages[group.stage].memory;
    std::map<std::string, int64_t> by_letter;
    for (const memory::Item& item : plan.items) by_letter[item.letter] += item.bytes;
    report::Bar bar{
        .label = fmt::format("{}{}", group.place, group.chips > 1 ? fmt::format(" and {} alike", group.chips - 1) : ""),
        .values = {},
        .marks = {{as_number(group.limit.bytes.value()), "limit"}}};
    for (const std::string& letter : letters) bar.values.push_back(as_number(by_letter[letter]));
    bar.values.push_back(as_number(plan.padding_bytes));
    bar.values.push_back(as_number(group.reservation.code));
    chart.bars.push_back(std::move(bar));
  }
  return report::stacked_bars(chart);
}

/// The worst chip: a bar for each role.
std::string roles_picture(const memory::MemoryPlan& plan) {
  const memory::MemoryTable table = memory::by_letter(plan);
  report::BarChart chart{.series = {}, .bars = {}, .text = bytes_label};
  for (const memory::MemoryTable::Row& row : table.rows) chart.series.push_back(letter_label(row.name));
  for (size_t role = 0; role < table.roles.size(); ++role) {
    report::Bar bar{.label = std::string(ir::role_name(table.roles[role])), .values = {}};
    for (const memory::MemoryTable::Row& row : table.rows) bar.values.push_back(as_number(row.bytes[role]));
    chart.bars.push_back(std::move(bar));
  }
  return report::stacked_bars(chart);
}

std::string time_picture(const fit::StepTime& time) {
  report::BarChart chart{.series = {"bound by arithmetic", "bound by memory", "pipeline bubble"},
                         .bars = {{.label = "step", .values = {time.compute, time.memory, time.bubble}},
                                  {.label = "links, beside the work", .values = {0, 0, 0}}},
                         .text = human_seconds};
  for (const fit::LinkTime& link : time.links) {
    chart.series.push_back(fmt::format("{} over {}", link.link, link.axes));
    chart.bars[0].values.push_back(link.exposed);
    chart.bars[1].values.push_back(std::max(0.0, link.seconds - link.exposed));
  }
  return report::stacked_bars(chart);
}

Table chips_table(const fit::FitReport& fit) {
  Table table{.headings = {">chips", "the first of them", "at", ">planned", ">corrected", ">code", ">needed", ">limit",
                           ">free"},
              .rows = {}};
  for (const fit::ChipGroup& g : fit.groups)
    table.rows.push_back({std::to_string(g.chips), g.place, g.where, human_bytes(g.planned),
                          fit.samples > 0 ? human_bytes(g.corrected) : "-", human_bytes(g.reservation.code),
                          human_bytes(g.needed()), human_bytes(g.limit.bytes.value()), free_text(g)});
  return table;
}

Table memory_table(const memory::MemoryTable& memory, const char* title) {
  Table table{.headings = {title}, .rows = {}};
  for (const ir::Role role : memory.roles) table.headings.push_back(">" + std::string(ir::role_name(role)));
  table.headings.push_back(">total");
  for (const memory::MemoryTable::Row& row : memory.rows) {
    std::vector<std::string> cells = {letter_label(row.name)};
    for (const int64_t bytes : row.bytes) cells.push_back(bytes == 0 ? "" : human_bytes(bytes));
    cells.push_back(human_bytes(row.total()));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table largest_table(const memory::MemoryPlan& plan) {
  Table table{.headings = {">bytes", "role", "where", "what"}, .rows = {}};
  for (const memory::Allocation& piece : plan.largest)
    table.rows.push_back({human_bytes(piece.bytes), std::string(ir::role_name(piece.role)), piece.scope, piece.what});
  return table;
}

// The specs of its optimizer state, each once.
std::string state_specs(const fit::StoredParameter& parameter) {
  std::string text;
  std::set<std::string> seen;
  for (const fit::StoredTensor& tensor : parameter.state)
    if (seen.insert(tensor.spec).second) text += (text.empty() ? "" : "; ") + tensor.spec;
  return text;
}

Table parameters_table(const PlanReport& r) {
  Table table{.headings = {">stage", "name", ">shape", ">local", "stored", "computed", "optimizer", ">weight",
                           ">gradient", ">optimizer state", "layout", "why"},
              .rows = {}};
  for (const fit::StoredParameter& p : r.stored)
    table.rows.push_back({std::to_string(p.stage), p.name, shape_text(p.shape), shape_text(p.weight.local),
                          p.weight.spec, p.computed, state_specs(p), human_bytes(p.weight.bytes),
                          human_bytes(p.gradient.bytes), human_bytes(p.state_bytes()), p.weight.layout, p.why});
  return table;
}

Table facts_table(const PlanReport& r) {
  const recipe::Recipe& recipe = r.estimate.recipe();
  const plan::Plan& plan = r.estimate.plan();
  Table table{
      .headings = {"", ""},
      .rows = {{"model", fmt::format("{}, pattern {}, depth {}, {:.2f}M parameters", recipe.name, recipe.model.pattern,
                                     recipe.model.depth, static_cast<double>(r.parameters) / 1e6)},
               {"hardware", hardware_text(r.slice)},
               {"step", step_text(recipe.train)},
               {"mesh", to_string(plan.parallel.mesh)},
               {"layout", plan::layout_line(plan)},
               {"decided", decided_text(r.estimate.planned)}}};
  if (!r.estimate.recompute.empty()) table.rows.push_back({"recompute", fit::to_text(r.estimate.recompute)});
  if (const std::string loops = fit::loops_text(r.estimate); !loops.empty()) table.rows.push_back({"blocks", loops});
  if (r.estimate.shallow) table.rows.push_back({"repeated blocks", to_text(r.estimate.shallow->depths)});
  for (const plan::Change& change : r.filling)
    table.rows.push_back({"changed to fill the slice", change.key + ": " + change.value});
  for (const plan::CompositionStep& step : r.composition) table.rows.push_back({step.step, step.here});
  return table;
}

void add_memory(report::Page& page, const PlanReport& r) {
  const memory::MemoryPlan& plan = r.memory();
  page.heading("Memory of every chip");
  page.figure(chips_picture(r), "Bytes at the peak by letter against the limit; the chip that is worst off first.");
  page.table(chips_table(r.estimate.fit));
  if (const std::string reserved = reserved_text(r); !reserved.empty()) {
    page.paragraph(reserved);
    page.table(reserved_table(r));
  }
  page.paragraph(correction_text(r));
  page.paragraph(
      fmt::format("The average over all chips, which decides nothing: {} needed.", human_bytes(r.estimate.fit.mean)));
  page.heading("The worst chip: " + r.worst().place);
  page.figure(roles_picture(plan), "What its bytes are for at the peak, by letter.");
  page.table(memory_table(memory::by_letter(plan), "letter"));
  page.folded_table("By block", memory_table(memory::by_alike_blocks(plan), "block"));
  const fit::ArgumentBytes& a = r.arguments;
  page.paragraph(
      fmt::format("Arguments of the program: {}, of which {} are padding (weights {}, optimizer {}, batch {}).",
                  human_bytes(a.total()), human_bytes(a.padding), human_bytes(a.weights), human_bytes(a.optimizer),
                  human_bytes(a.batch)));
  page.heading("Largest allocations at its peak");
  page.table(largest_table(plan));
}

void add_time(report::Page& page, const PlanReport& r) {
  const fit::StepTime& time = r.estimate.time;
  page.heading("Predicted step");
  page.paragraph(fmt::format("{}: {:.0f} tokens/s, {:.1f}% MFU, {}. {}", human_seconds(time.seconds()),
                             r.tokens_per_second(), 100 * time.mfu,
                             fit::basis_of_times(r.slice.chip, r.estimate.recipe()), step_range_text(r)));
  page.paragraph(fmt::format("Regime: {}. {}", to_text(r.regime), r.speed_advice));
  page.figure(time_picture(time),
              "Where the time goes: links count in the step only where nothing is computed meanwhile.");
  page.paragraph(arithmetic_text(time));
  if (!time.links.empty()) page.table(links_table(time));
}

report::Page::Tone tone_of(fit::FitVerdict verdict) {
  using enum report::Page::Tone;
  switch (verdict) {
    case fit::FitVerdict::fits:
      return good;
    case fit::FitVerdict::close:
      return plain;
    case fit::FitVerdict::does_not_fit:
      return bad;
  }
  return bad;
}

}  // namespace

std::string plan_page(const PlanReport& r) {
  report::Page page(fmt::format("{} on {}", r.estimate.recipe().name, r.slice.name));
  page.banner(verdict_text(r), tone_of(r.estimate.fit.verdict()));
  page.table(facts_table(r));
  add_memory(page, r);
  add_time(page, r);
  page.heading("Parameters");
  const std::string whose = r.estimate.shallow ? fmt::format("The {} parameters of the plan of depth {}",
                                                             r.stored.size(), r.estimate.shallow->depths.depths[2])
                                               : fmt::format("All {} parameters", r.stored.size());
  page.folded_table(whose, parameters_table(r));
  return page.to_text();
}

}  // namespace megacpp::cli
