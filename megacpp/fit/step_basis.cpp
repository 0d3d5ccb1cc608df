// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/step_basis.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/base/human_seconds.h"
#include "megacpp/fit/node_time.h"
#include "megacpp/memory/report.h"

namespace megacpp::fit {
namespace {

using base::human_seconds;

/// "source, 2026-11-16"; a user's file need not date its facts.
std::string cited(const hw::Chip& chip, const char* fact_name) {
  const hw::Fact* const fact = chip.fact(fact_name);
  if (fact == nullptr) return chip.origin;
  return fact->source + (fact->date.empty() ? "" : ", " + fact->date);
}

/// What stands in for rates that its file does not have.
std::string missing_rates(const hw::Chip& chip, const recipe::Recipe& recipe) {
  const std::string dtype = matrix_rate(chip, recipe.train.precision).dtype;
  std::string text;
  if (!dtype.empty() && dtype != recipe.train.precision)
    text += fmt::format("; products in {} at the rate of {}, since its file has none", recipe.train.precision, dtype);
  if (recipe.layout.offload != recipe::Layout{}.offload && chip.link(kHostLink) == nullptr)
    text += fmt::format("; without the copies of layout.offload, since its file has no link {}", kHostLink);
  return text;
}

std::string_view why_open(OpenEnd open) {
  constexpr std::array<std::string_view, 3> kWhy = {
      "nobody measured: no whole step was run there",
      "nobody measured: whole steps were run there with blocks unrolled, not in loops (xla.loops)",
      "is not known: the steps that ranges are taken from waited for no copies from and to the host (layout.offload)"};
  return kWhy.at(static_cast<size_t>(open));
}

}  // namespace

std::string basis_of_times(const hw::Chip& chip, const recipe::Recipe& recipe) {
  if (chip.kind == hw::ChipKind::host) return "predicted by rates measured on this machine";
  const std::string missing = missing_rates(chip, recipe);
  if (!chip.reached.is_known())
    return fmt::format("the roofline, the least that {} allows: what steps reach of it was not measured{}", chip.name,
                       missing);
  return fmt::format("predicted by the rates that the file of {} gives ({}){}", chip.name,
                     cited(chip, "reached.products"), missing);
}

std::string range_text(const StepTime& time, const hw::Chip& chip) {
  const std::string limit = human_seconds(time.limit);
  if (time.unpriced_bytes > 0)
    return fmt::format(
        "Expected above {}, the roofline without copies from and to the host: how long {} take nobody knows, since the "
        "file of {} has no link {}.",
        limit, memory::human_bytes(time.unpriced_bytes), chip.name, kHostLink);
  if (time.is_limit || chip.kind == hw::ChipKind::host) return fmt::format("The roofline is {}.", limit);
  if (!time.range.most)
    return fmt::format("Expected above {}, the roofline; how far above {}.", limit, why_open(time.range.open));
  return fmt::format("Expected between {} and {}, as far off as measured steps were ({}); the roofline is {}.",
                     human_seconds(time.range.least), human_seconds(*time.range.most), cited(chip, "reached.step_most"),
                     limit);
}

}  // namespace megacpp::fit
