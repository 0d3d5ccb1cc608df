// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/injected_faults.h"

#include <vector>

#include "megacpp/program/recipe/chip_settings.h"

namespace megacpp::launch {
namespace {

using recipe::FailAllocation;

bool is_same(const FailAllocation& fault, const memory::OomFacts& failure) {
  if (fault.chip != failure.chip) return false;
  switch (fault.at) {
    case FailAllocation::At::compile:
      return failure.cls == memory::OomClass::compile;
    case FailAllocation::At::load:
      return failure.cls == memory::OomClass::load;
    case FailAllocation::At::step:
      return failure.cls == memory::OomClass::runtime && failure.step == fault.step;
  }
  return false;
}

}  // namespace

std::optional<int64_t> fired_fault(const recipe::Hardware& hardware, const memory::OomFacts& failure) {
  if (!failure.is_injected) return std::nullopt;
  const std::vector<FailAllocation> faults = recipe::fail_allocations(hardware);
  for (size_t place = 0; place < faults.size(); ++place)
    if (is_same(faults[place], failure)) return static_cast<int64_t>(place);
  return std::nullopt;
}

recipe::Recipe without_fault(recipe::Recipe recipe, int64_t place) {
  recipe.hardware.fail_allocation.erase(recipe.hardware.fail_allocation.begin() + place);
  return recipe;
}

recipe::Recipe without_answered_faults(recipe::Recipe recipe) {
  std::erase_if(recipe.hardware.fail_allocation, [](const std::string& text) {
    const std::optional<FailAllocation> fault = recipe::parse_fail_allocation(text);
    return fault && (fault->at != FailAllocation::At::step || fault->step == 0);
  });
  return recipe;
}

}  // namespace megacpp::launch
