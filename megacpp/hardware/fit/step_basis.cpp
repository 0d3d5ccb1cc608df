// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/step_basis.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/human_seconds.h"
#include "megacpp/hardware/fit/node_time.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::fit {
namespace {

using base::human_seconds;

/// "source, 2026-11-16"; a user's file need not date its facts.
std::string cited(const hw::Chip& chip, const char* fact_name) {
  const hw::Fact* const fact = chip.fact(fact_name);
  if (fact == nullptr) return chip.origin;
  return fact->source + (fact->date.empty() ? "" : ", " + fact->date);
}

/// What products are in: routers compute in f32 beside whatever else.
std::vector<std::string> precisions_of(const recipe::Recipe& recipe) {
  std::vector<std::string> found = {std::string(ir::dtype_name(recipe.train.precision))};
  if (recipe::has_experts(recipe.model) && recipe.train.precision != ir::DType::f32)
    found.emplace_back(ir::dtype_name(ir::DType::f32));
  return found;
}

template <typename Family>
bool has_blocks_of(const recipe::Model& model) {
  return std::ranges::any_of(recipe::block_types(model),
                             [](const recipe::BlockType& type) { return type.config.get_if<Family>() != nullptr; });
}

/// Kinds of work whose rate is taken from products.
std::vector<std::string> work_at_rate_of_products(const hw::Chip& chip, const recipe::Recipe& recipe) {
  std::vector<std::string> found;
  if (!chip.reached.is_known()) return found;
  if ((chip.reached.attention.empty() || chip.reached.attention_grad.empty()) &&
      has_blocks_of<blocks::Attention>(recipe.model))
    found.emplace_back("attention");
  if (chip.reached.ssd == 0 && has_blocks_of<blocks::Mamba>(recipe.model)) found.emplace_back("state-space products");
  return found;
}

/// What stands in for rates that its file does not have.
std::string missing_rates(const hw::Chip& chip, const recipe::Recipe& recipe) {
  std::string text;
  for (const std::string& precision : precisions_of(recipe))
    if (const std::string dtype = matrix_rate(chip, precision).dtype; !dtype.empty() && dtype != precision)
      text += fmt::format("; products in {} at the rate of {}, since its file has none", precision, dtype);
  if (chip.reached.is_known() && recipe.train.precision != kMeasuredPrecision)
    text += fmt::format("; shares of the peak are those of products in {}, since its file has no others",
                        ir::dtype_name(kMeasuredPrecision));
  if (const std::vector<std::string> work = work_at_rate_of_products(chip, recipe); !work.empty())
    text += fmt::format("; {} at the share of products, since its file has none", fmt::join(work, " and "));
  if (recipe.layout.offload != recipe::Offload::none && chip.link(ir::record(ir::Tier::host).link) == nullptr)
    text += fmt::format("; without the copies of layout.offload, since its file has no link {}",
                        ir::record(ir::Tier::host).link);
  return text;
}

std::string_view why_open(OpenEnd open) {
  constexpr std::array<std::string_view, 5> kWhy = {
      "nobody measured: no whole step was run there", "nobody measured: whole steps were run there in bf16",
      "nobody measured: whole steps were run there with blocks unrolled, not in loops (xla.loops)",
      "is not known: the steps that ranges are taken from waited for no copies from and to the host (layout.offload)",
      "nobody measured: whole steps were run there on one chip alone"};
  return kWhy.at(static_cast<size_t>(open));
}

}  // namespace

std::string basis_of_times(const hw::Chip& chip, const recipe::Recipe& recipe) {
  if (chip.is_virtual()) return "predicted by rates measured on this machine";
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
        limit, memory::human_bytes(time.unpriced_bytes), chip.name, ir::record(ir::Tier::host).link);
  if (time.is_limit || chip.is_virtual()) return fmt::format("The roofline is {}.", limit);
  if (!time.range.most)
    return fmt::format("Expected above {}, the roofline; how far above {}.", limit, why_open(time.range.open));
  return fmt::format("Expected between {} and {}, as far off as measured steps were ({}); the roofline is {}.",
                     human_seconds(time.range.least), human_seconds(*time.range.most), cited(chip, "reached.step_most"),
                     limit);
}

}  // namespace megacpp::fit
