// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/chip_memory.h"

#include <algorithm>
#include <utility>

namespace megacpp::launch {
namespace {

int64_t free_bytes(const ChipReport& chip) { return chip.memory.limit_bytes.value_or(0) - chip.peak_bytes(); }

}  // namespace

int64_t ChipReport::peak_bytes() const {
  return memory.measured_peak_bytes.value_or(memory.planned_peak_bytes.value_or(0));
}

void put_worst_first(std::vector<ChipReport>& chips) {
  std::ranges::sort(chips, {}, [](const ChipReport& chip) { return std::pair(free_bytes(chip), chip.chip); });
}

std::vector<ChipReport> worst_first(const runtime::Executable& run) {
  std::vector<ChipReport> chips;
  for (const int64_t chip : run.local_chips()) chips.push_back({chip, run.memory(chip)});
  put_worst_first(chips);
  return chips;
}

}  // namespace megacpp::launch
