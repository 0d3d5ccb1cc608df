// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/ceilings_table.h"

#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"

namespace megacpp::report {
namespace {

std::string shape_text(const std::optional<compare::TriedShape>& shape) {
  if (!shape) return "-";
  return fmt::format("{} x {} ({}{})", shape->batch, shape->sequence,
                     base::counted(shape->ran + shape->out_of_memory, "run"),
                     shape->out_of_memory > 0 ? fmt::format(", {} out of memory", shape->out_of_memory) : "");
}

}  // namespace

Table ceilings_table(const std::vector<compare::Ceiling>& ceilings, size_t times) {
  Table table{.headings = {"model", "topology", "lane", fmt::format("validated {} times", times), "single peak",
                           "out of memory"},
              .rows = {}};
  for (const compare::Ceiling& ceiling : ceilings)
    table.rows.push_back({ceiling.model, ceiling.topology, ceiling.lane, shape_text(ceiling.validated),
                          shape_text(ceiling.single_peak), shape_text(ceiling.too_large)});
  return table;
}

}  // namespace megacpp::report
