// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/misfit.h"

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/memory/report.h"

namespace megacpp::fit {
namespace {

using memory::human_bytes;

std::string with_unit(int64_t bytes) { return fmt::format("{} bytes ({})", bytes, human_bytes(bytes)); }

int64_t overflowing(const FitReport& report) {
  int64_t chips = 0;
  for (const ChipGroup& group : report.groups)
    if (group.room() < 0) chips += group.chips;
  return chips;
}

// "1.5 GiB planned, 1.6 GiB by what the catalog learnt, 0.4 GiB of code"
std::string parts_text(const ChipGroup& chip) {
  std::string text = human_bytes(chip.planned) + " planned";
  if (chip.corrected != chip.planned) text += ", " + human_bytes(chip.corrected) + " by what the catalog has learnt";
  if (chip.code > 0) text += ", and " + human_bytes(chip.code) + " of code";
  return text;
}

}  // namespace

memory::OutOfMemory misfit_error(const OnPaper& paper) {
  MEGACPP_CHECK(!paper.fit.fits()) << "everything fits";
  const ChipGroup& worst = paper.fit.worst();
  const memory::MemoryPlan& plan = paper.compiled.pipeline[worst.stage].memory;
  const std::string place = worst.place + " at " + worst.where;
  base::Problem problem{
      .where = place + " of " + paper.fit.hardware,
      .got = fmt::format("{} needed, {} too much ({}): {}; {} of {} chips do not fit", with_unit(worst.needed()),
                         human_bytes(-worst.room()), parts_text(worst), memory::contents_text(plan),
                         overflowing(paper.fit), paper.compiled.mesh.chips()),
      .wanted = fmt::format("at most the {} of this chip", with_unit(worst.limit)),
      .next = memory::next_for_chip(plan, worst.limit - worst.code, paper.compiled.mesh)};
  memory::OomFacts facts{.cls = memory::OomClass::compile,
                         .stage = "planning",
                         .chip = worst.chip,
                         .place = place,
                         .wanted = worst.needed(),
                         .limit = worst.limit,
                         .roles = memory::bytes_by_role(plan),
                         .largest = memory::pieces_of(plan)};
  return {base::Code::E2001, std::move(problem), std::move(facts)};
}

}  // namespace megacpp::fit
