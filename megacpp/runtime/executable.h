// SPDX-License-Identifier: Apache-2.0
// A loaded run on one chip: programs over one arena, ready to step. State is reached by name; running a program never
// allocates and touches nothing outside the arena.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/ir/graph.h"
#include "megacpp/memory/memory_plan.h"

namespace megacpp::runtime {

/// Bytes of one chip, planned and as the running program really used them.
struct ChipMemory {
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;  // end of the highest byte any kernel was handed so far
};

/// The node that made a number which is not finite.
struct BadValue {
  std::string program;
  uint32_t node = 0;
  std::string op;
  std::string scope;
  std::string type;
};

class Executable {
 public:
  virtual ~Executable() = default;

  /// The bytes of a state tensor, in its storage dtype. Throws for an unknown name.
  virtual std::span<std::byte> state(const std::string& name) = 0;
  virtual void run(size_t program) = 0;
  /// An f32 scalar output of the program that ran last.
  virtual float scalar_output(size_t program, const std::string& name) const = 0;
  /// The bytes of an output of the program that ran last.
  virtual std::span<const std::byte> output(size_t program, const std::string& name) const = 0;
  virtual ChipMemory memory() const = 0;

  /// Runs the program like run(), but looks at every result and stops at the first node that makes a NaN or an
  /// infinity.
  virtual std::optional<BadValue> run_checked(size_t program) = 0;
  /// Seconds spent per op since load, when profiling is on.
  virtual std::vector<std::pair<std::string, double>> op_seconds() const = 0;
};

/// Programs as scheduled, with their plan; both must outlive the executable.
struct LoadedProgram {
  const ir::Graph* graph;
  const memory::ProgramPlan* plan;
};

}  // namespace megacpp::runtime
