// SPDX-License-Identifier: Apache-2.0
// A plan for people who read it in a terminal.
#include <fmt/format.h>

#include "megacpp/cli/layout_report.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/fit/step_basis.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/print.h"
#include "megacpp/run/launch/fill_slice.h"

namespace megacpp::cli {
namespace {

using base::human_seconds;
using memory::human_bytes;

std::string header_text(const PlanReport& r) {
  const recipe::Recipe& recipe = r.estimate.recipe();
  const plan::Plan& plan = r.estimate.plan();
  std::string text =
      fmt::format("model     {}  pattern {}  depth {}  {:.2f}M parameters\n", base::printable_in_line(recipe.name),
                  recipe.model.pattern, recipe.model.depth, static_cast<double>(r.parameters) / 1e6);
  text += fmt::format("hardware  {}\n", base::printable_in_line(hardware_text(r.slice)));
  text += fmt::format("step      {}\n", step_text(recipe.train));
  text += fmt::format("mesh      {}  chips {}\n", to_string(plan.parallel.mesh), plan.chips);
  text += fmt::format("layout    {}\n", plan::layout_line(plan));
  text += fmt::format("decided   {}\n", decided_text(r.estimate.planned));
  if (!r.estimate.recompute.empty()) text += fmt::format("recompute {}\n", fit::to_text(r.estimate.recompute));
  if (const std::string loops = fit::loops_text(r.estimate); !loops.empty())
    text += fmt::format("blocks    {}\n", loops);
  if (r.estimate.shallow) text += fmt::format("repeated  {}\n", to_text(r.estimate.shallow->depths));
  if (!r.filling.empty())
    text += fmt::format("changed   {}: so that no chip of {} is left over\n", launch::changes_text(r.filling),
                        base::printable_in_line(r.slice.name));
  return text;
}

std::string gates_text() {
  std::string text = "Gates: all passed. What they refuse:\n";
  for (const base::Code code : plan::gate_codes())
    text += fmt::format("  {}  {}\n", base::code_name(code), base::code_title(code));
  return text;
}

std::string chips_text(const fit::FitReport& fit, bool has_stages) {
  std::vector<std::string> headings = {">chips", "the first of them", "at", ">planned"};
  if (has_stages) headings.insert(headings.begin(), ">stage");
  if (fit.samples > 0) headings.push_back(">corrected");
  for (const char* heading : {">code", ">needed", ">limit", ">free"}) headings.push_back(heading);
  TextTable table(std::move(headings));
  for (const fit::ChipGroup& group : fit.groups) {
    std::vector<std::string> cells = {std::to_string(group.chips), group.place, group.where,
                                      human_bytes(group.planned)};
    if (has_stages) cells.insert(cells.begin(), std::to_string(group.stage));
    if (fit.samples > 0) cells.push_back(human_bytes(group.corrected));
    cells.push_back(human_bytes(group.reservation.code));
    cells.push_back(human_bytes(group.needed()));
    cells.push_back(human_bytes(group.limit.bytes.value()));
    cells.push_back(free_text(group));
    table.add(std::move(cells));
  }
  return "Memory of a chip, the one that is worst off first; chips that are alike are one line.\n" + table.to_text();
}

std::string snapshot_text(const fit::FitReport& fit) {
  std::string text;
  if (fit.host_offloaded > 0)
    text = fmt::format("What is offloaded takes {} of pinned memory on a host.\n", human_bytes(fit.host_offloaded));
  text +=
      fit.snapshot == 0
          ? "No checkpoints are saved.\n"
          : fmt::format("Checkpoints are written from a snapshot of {} in host memory{}.\n", human_bytes(fit.snapshot),
                        fit.worst().limit.machine ? ", which is counted with the chips of this machine" : "");
  return text;
}

std::string memory_text(const PlanReport& r) {
  const memory::MemoryPlan& plan = r.memory();
  std::string text = fmt::format("The worst chip, {}, at its peak in program {}:\n", r.worst().place,
                                 base::printable_in_line(plan.peak_program));
  memory::MemoryTable letters = memory::by_letter(plan);
  for (memory::MemoryTable::Row& row : letters.rows)
    if (row.name.empty()) row.name = "outside blocks";
  text += to_text(letters, "letter") + "\n";
  text += to_text(memory::by_alike_blocks(plan), "block") + "\n";
  text += fmt::format("Alignment of buffers and gaps between them {}, in the sum of {}.\n\n",
                      human_bytes(plan.padding_bytes), human_bytes(plan.total_bytes));
  text += "Largest allocations at the peak:\n" + memory::largest_text(plan);
  const fit::ArgumentBytes& a = r.arguments;
  text += fmt::format(
      "\nArguments of the program {} bytes ({}): weights {}, optimizer {}, batch {}; {} of it pads {}.\n", a.total(),
      human_bytes(a.total()), human_bytes(a.weights), human_bytes(a.optimizer), human_bytes(a.batch),
      human_bytes(a.padding), r.slice.chip.tiling.exists() ? "tiles" : "to the alignment");
  return text;
}

std::string links_text(const fit::StepTime& time) {
  if (time.links.empty()) return "Collectives: none.\n";
  return "Collectives of a step: bytes a chip sends, by axes of the mesh; megacpp explain names each.\n" +
         to_text(links_table(time));
}

std::string islands_text(const PlanReport& r) {
  if (r.islands.empty()) return "";
  std::string text = "\nThe link under each axis of the mesh:\n" + to_text(islands_table(r.islands));
  for (const fit::Crossing& crossing : r.crossings)
    text += fmt::format("warning: {}.\n", base::printable_in_line(fit::to_text(crossing)));
  return text;
}

std::string time_text(const PlanReport& r) {
  const fit::StepTime& time = r.estimate.time;
  const double all = time.seconds();
  TextTable table({"part", ">time", ">share"});
  const auto add = [&](const char* name, double seconds) {
    table.add({name, human_seconds(seconds), fmt::format("{:.1f}%", all > 0 ? 100 * seconds / all : 0)});
  };
  add("bound by arithmetic", time.compute);
  add("bound by memory", time.memory);
  add("waiting for links", time.exposed);
  add("pipeline bubble", time.bubble);
  const std::string predicted =
      fmt::format("Predicted step {}: {:.0f} tokens/s, {:.1f}% MFU, {}.", human_seconds(all), r.tokens_per_second(),
                  100 * time.mfu, fit::basis_of_times(r.slice.chip, r.estimate.recipe()));
  std::string text;
  for (const std::string& line : {predicted, step_range_text(r), "Regime: " + to_text(r.regime) + "."})
    text += base::printable_in_line(line) + "\n";
  text += table.to_text() + arithmetic_text(time) + "\n";
  return text +
         fmt::format("Links carry {} more beside the work. {}\n", human_seconds(time.overlapped), r.speed_advice);
}

}  // namespace

std::string plan_text(const PlanReport& r) {
  const plan::Plan& plan = r.estimate.plan();
  const bool has_stages = plan.stages > 1;
  std::string text = header_text(r) + "\n" + base::printable_in_line(verdict_text(r)) + "\n\n";
  text += "Composition, in this order for every model:\n" + composition_text(r.composition);
  const std::string axes = plan::axes_text(plan);
  if (!axes.empty()) text += "\nAxes of the mesh behind each dimension:\n" + axes;
  text += islands_text(r);
  text += "\n" + gates_text();
  text += "\n" + parameters_text(r.rows, plan);
  text += "\n" + chips_text(r.estimate.fit, has_stages);
  if (const std::string reserved = reserved_text(r); !reserved.empty())
    text += "\n" + reserved + "\n" + to_text(reserved_table(r)) + "\n";
  text += base::printable_in_line(correction_text(r)) + "\n" + snapshot_text(r.estimate.fit);
  text += "\n" + memory_text(r);
  text += "\n" + links_text(r.estimate.time);
  text += "\n" + time_text(r);
  return text + fmt::format("\nThe average over all {} chips, which decides nothing: {} needed.\n", plan.chips,
                            human_bytes(r.estimate.fit.mean));
}

}  // namespace megacpp::cli
