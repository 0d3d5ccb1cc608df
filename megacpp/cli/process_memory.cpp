// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/process_memory.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/program/memory/report.h"

namespace megacpp::cli {

int64_t ProcessBytes::buffers() const { return std::max<int64_t>(counted.mapped - planned, 0); }

int64_t ProcessBytes::named() const {
  return counted.code + counted.stacks + counted.heap + buffers() + counted.released;
}

std::optional<ProcessBytes> process_bytes(const fit::Estimate& estimate, const runtime::Executable& run) {
  const std::optional<base::ProcessMemory> counted = base::process_memory();
  if (!counted) return std::nullopt;
  ProcessBytes bytes{.counted = *counted};
  if (estimate.fit.hardware.starts_with("host"))
    for (const int64_t chip : run.local_chips()) bytes.planned += run.memory(chip).planned_peak_bytes.value_or(0);
  return bytes;
}

std::string to_text(const ProcessBytes& bytes) {
  using memory::human_bytes;
  const base::ProcessMemory& counted = bytes.counted;
  return fmt::format(
      "process: at most {} resident: {} planned, {} code and libraries, {} thread stacks, {} heap, {} buffers and "
      "large "
      "lists, {} released before the end\n",
      human_bytes(counted.peak), human_bytes(bytes.planned), human_bytes(counted.code), human_bytes(counted.stacks),
      human_bytes(counted.heap), human_bytes(bytes.buffers()), human_bytes(counted.released));
}

Json to_json(const std::optional<ProcessBytes>& bytes) {
  if (!bytes) return {};
  return {{"peak_bytes", bytes->counted.peak},    {"planned_bytes", bytes->planned},
          {"named_bytes", bytes->named()},        {"code_bytes", bytes->counted.code},
          {"stack_bytes", bytes->counted.stacks}, {"heap_bytes", bytes->counted.heap},
          {"buffer_bytes", bytes->buffers()},     {"released_bytes", bytes->counted.released}};
}

}  // namespace megacpp::cli
