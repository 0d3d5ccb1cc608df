// SPDX-License-Identifier: Apache-2.0
// The memory plan for people: totals, by role and letter, by block, the largest allocations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/program/memory/memory_plan.h"

namespace megacpp::memory {

/// Bytes at the peak, without padding: a row for each letter or block, a column for each role there is.
struct MemoryTable {
  struct Row {
    std::string name;            // "A", "block07", or "" outside blocks
    std::vector<int64_t> bytes;  // by column
    int64_t total() const;
  };
  std::vector<ir::Role> roles;
  std::vector<Row> rows;  // by name
};
MemoryTable by_letter(const MemoryPlan& plan);
MemoryTable by_block(const MemoryPlan& plan);
/// Blocks of a letter that need the same are one row: "M block02 .. block54 (14 alike)".
MemoryTable by_alike_blocks(const MemoryPlan& plan);

/// The columns as wide as they need to be; `title` stands above the names.
std::string to_text(const MemoryTable& table, const std::string& title);
/// The largest allocations at the peak, one a line.
std::string largest_text(const MemoryPlan& plan);

std::string to_text(const MemoryPlan& plan);

/// "1.50 MiB": binary units, three significant digits or so.
std::string human_bytes(int64_t bytes);
/// "1572864 bytes (1.50 MiB)"
std::string exact_bytes(int64_t bytes);

}  // namespace megacpp::memory
