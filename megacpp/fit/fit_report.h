// SPDX-License-Identifier: Apache-2.0
// What every chip of given hardware needs, the one with the least free memory first. Chips that run the same programs
// under the same limit are one group, so the report grows with stages and not with chips.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/catalog/calibration.h"
#include "megacpp/compile/compile.h"
#include "megacpp/hw/slice.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::fit {

struct ChipGroup {
  size_t stage = 0;              // of the pipeline
  int64_t chip = 0;              // of the mesh: the first of them
  int64_t chips = 0;             // alike
  std::string place;             // "chip 3: data 1, model 1"
  std::string where;             // "(3, 0) on host 1"
  int64_t planned = 0;           // bytes at the peak, by our plan for this hardware
  int64_t state = 0;             // of them, what stays from step to step
  int64_t corrected = 0;         // as the catalog's correction of the lane has it; without one as planned
  int64_t code = 0;              // bytes of the compiled program, which is in the same memory
  std::optional<int64_t> limit;  // bytes; absent: none is known
  double gaps_most = 1;          // what a compiler may reserve over what is alive
  bool own_limit = false;        // the recipe's, of this chip
  bool shares_machine = false;   // a virtual chip without one: its limit is what the others leave
  int64_t machine_bytes = 0;     // of a chip that does: all chips' of its machine together
  int64_t machine_needed = 0;    //

  int64_t needed() const { return corrected + code; }
  /// Below 0: it does not fit, or the chips that share a machine do not together. Absent with the limit.
  std::optional<int64_t> free_bytes() const {
    if (!limit) return std::nullopt;
    return shares_machine ? machine_bytes - machine_needed : *limit - needed();
  }
  /// By what is known: without a limit only its devices can tell.
  bool fits() const { return free_bytes().value_or(0) >= 0; }
  /// Whether it fits by what is alive, and would not with the most that compilers left unused between buffers.
  bool is_close() const {
    return limit && fits() &&
           gaps_most * static_cast<double>(corrected) + static_cast<double>(code) > static_cast<double>(*limit);
  }
  int64_t least_limit() const { return state + code; }
  /// Whether the recipe allows it less than any batch could do with.
  bool limit_is_wrong() const { return own_limit && *limit < least_limit(); }
};

struct FitReport {
  std::string hardware;           // "v6e:16x16"
  std::vector<ChipGroup> groups;  // least free memory first
  int64_t mean = 0;               // needed bytes over all chips, for a footnote
  size_t samples = 0;             // that the correction was learnt from
  int64_t snapshot = 0;           // of host memory, for checkpoints; machines that share it with their chips count it

  const ChipGroup& worst() const { return groups.front(); }
  bool fits() const { return worst().fits(); }
};

/// Bytes of a compiled step in a device's memory beside what the plan counts.
int64_t code_bytes(const hw::Chip& device);

/// The family behind each letter of a recipe's own: "D" -> "E".
using LetterFamilies = std::map<std::string, std::string>;
LetterFamilies letter_families(const recipe::Model& model);

/// The bytes of a plan by role, as the catalog's samples have them; temporaries by family too ("temporary of E",
/// "temporary outside blocks"), since what the head computes for a moment says nothing of what experts do. Never by a
/// letter of the recipe's own, which is another thing in every recipe.
std::vector<catalog::Part> parts_of(const memory::MemoryPlan& plan, const LetterFamilies& letters = {});

/// What other launches measured, for the plans of a model.
struct PlanCorrection {
  catalog::Correction of_parts = {};
  LetterFamilies letters = {};
};

/// `limits` are bytes by chip, 0: the hardware's own; empty: that for all. Virtual chips of a machine share its memory:
/// one without a limit of its own may take what the others of its machine and the snapshot of checkpoints leave.
FitReport fit_report(const compile::Compiled& compiled, const hw::Slice& slice, const std::vector<int64_t>& limits,
                     const PlanCorrection& correction = {});

}  // namespace megacpp::fit
