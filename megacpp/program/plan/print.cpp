// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/program/plan/dim_names.h"

namespace megacpp::plan {

std::string axes_text(const Plan& plan) {
  std::string text;
  for (const auto& [dim, axes] : plan.parallel.axes)
    text += fmt::format("{}: {}\n", dim_name(dim), to_string(axes, plan.parallel.mesh));
  for (const auto& [letter, own] : plan.parallel.letter_axes)
    for (const auto& [dim, axes] : own)
      text += fmt::format("{} of {} blocks: {}\n", dim_name(dim), letter,
                          axes.empty() ? "whole" : to_string(axes, plan.parallel.mesh));
  if (plan.parallel.sequence_chunks > 1)
    text += fmt::format("runs of a sequence: {}{}\n", plan.parallel.sequence_chunks,
                        plan.parallel.balanced_order ? ", early and late paired" : "");
  if (!plan.cuts.empty()) text += fmt::format("stages begin at blocks: {}\n", fmt::join(plan.cuts, ", "));
  return text;
}

std::string layout_line(const Plan& plan) {
  const recipe::Layout& layout = plan.layout.keys();
  std::string text = "policy " + std::string(base::text_of(layout.policy));
  const auto add = [&text](const char* name, int64_t degree, const char* more = "") {
    if (degree > 1) text += fmt::format(", {} {}{}", name, degree, more);
  };
  add("data", layout.data_parallel);
  add("expert", layout.expert_parallel);
  add("context", layout.context_parallel);
  add("tensor", layout.tensor_parallel, layout.sequence_parallel ? " with sequence" : "");
  add("pipeline", layout.pipeline_parallel);
  return text + fmt::format(", zero {}", plan.layout.zero());
}

}  // namespace megacpp::plan
