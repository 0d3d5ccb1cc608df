// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/chip_memory.h"

#include <algorithm>

namespace megacpp::launch {
namespace {

int64_t free_bytes(const ChipReport& chip) { return chip.memory.limit_bytes.value_or(0) - chip.peak_bytes(); }

}  // namespace

int64_t ChipReport::peak_bytes() const {
  return memory.measured_peak_bytes.value_or(memory.planned_peak_bytes.value_or(0));
}

std::vector<ChipReport> worst_first(const runtime::Executable& run) {
  std::vector<ChipReport> chips;
  for (const int64_t chip : run.local_chips()) chips.push_back({chip, run.memory(chip)});
  std::stable_sort(chips.begin(), chips.end(),
                   [](const ChipReport& a, const ChipReport& b) { return free_bytes(a) < free_bytes(b); });
  return chips;
}

}  // namespace megacpp::launch
