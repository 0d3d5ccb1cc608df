// SPDX-License-Identifier: Apache-2.0
// What every chip of given hardware needs, the one that is worst off first: by its verdict, then by its free memory.
// Chips that run the same programs under the same limit are one group, so the report grows with stages and not with
// chips.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/hardware/catalog/calibration.h"
#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

/// Between: it fits by the least that is needed and would not by the most, so that only the compiler of the hardware
/// can tell.
enum class FitVerdict : uint8_t { fits, close, does_not_fit };
/// "fits", "close", "does not fit"
std::string_view fit_verdict_name(FitVerdict verdict);

/// Of virtual chips without a limit of their own: what all on the same machine have together.
struct SharedMachine {
  int64_t bytes = 0;
  int64_t needed = 0;
  int64_t snapshot = 0;  // part of what is needed: for checkpoints

  auto operator<=>(const SharedMachine&) const = default;
};

/// What a chip may use.
struct ChipLimit {
  std::optional<int64_t> bytes = {};  // absent: none is known; of a shared machine what the others leave
  bool is_recipes = false;            // set by the recipe for this chip
  std::optional<SharedMachine> machine = {};

  auto operator<=>(const ChipLimit&) const = default;
};

struct ChipGroup {
  size_t stage = 0;         // of the pipeline
  int64_t chip = 0;         // of the mesh: the first of them
  int64_t chips = 0;        // alike
  std::string place;        // "chip 3: data 1, model 1"
  std::string where;        // "(3, 0) on host 1"
  int64_t planned = 0;      // bytes at the peak, by our plan for this hardware
  int64_t corrected = 0;    // the same as the catalog's correction of the lane has it; without one as planned
  Reservation reservation;  // by the backend that runs there, and what was measured on its lane
  ChipLimit limit;

  /// What is expected.
  int64_t needed() const { return reservation.expected; }
  /// By what is expected. Below 0: it is not expected to fit, or the chips that share a machine do not together. Absent
  /// with the limit.
  std::optional<int64_t> free_bytes() const;
  /// What plans, searches and launches say of it: it fits by the most that may be needed, is close by the least.
  FitVerdict verdict() const;
  bool fits() const { return verdict() == FitVerdict::fits; }
  bool may_fit() const { return verdict() != FitVerdict::does_not_fit; }
  /// What the least batch could do with.
  int64_t least_limit() const { return reservation.state + reservation.least_code; }
  /// Whether the recipe allows it less than that.
  bool limit_is_wrong() const { return limit.is_recipes && *limit.bytes < least_limit(); }
};

struct FitReport {
  std::string hardware;           // "v6e:16x16"
  std::vector<ChipGroup> groups;  // worst verdict first, of one verdict least free memory
  int64_t mean = 0;               // needed bytes over all chips, for a footnote
  size_t samples = 0;             // that the correction was learnt from
  int64_t snapshot = 0;           // of host memory, for checkpoints; machines that share it with their chips count it
  // Of the host beside its chips that is worst off; 0 where chips share the host's memory.
  int64_t host_offloaded = 0;              // bytes in its pinned memory
  int64_t host_activations = 0;            // of these
  int64_t host_snapshot = 0;               // of the snapshot, there
  std::optional<int64_t> host_limit = {};  // what it has for both; absent: not known
  std::string host_name = {};              // empty: it has none
  int64_t host_chip = 0;                   // of the mesh: its first

  const ChipGroup& worst() const { return groups.front(); }
  int64_t host_needed() const { return host_offloaded + host_snapshot; }
  bool fits_host() const { return host_needed() <= host_limit.value_or(host_needed()); }
  /// That of the chip which is worst off, or of a host.
  FitVerdict verdict() const;
  bool fits() const { return verdict() == FitVerdict::fits; }
  bool may_fit() const { return verdict() != FitVerdict::does_not_fit; }
};

/// "1.20 GiB", "1.20 GiB (0.96 GiB to 1.50 GiB)" where a compiler places buffers itself.
std::string needed_text(const ChipGroup& group);
/// "31.24 GiB"; where chips that share a machine do not fit "23.54 GiB of this machine": what the others leave of it
/// may be nothing. A limit must be known.
std::string limit_text(const ChipGroup& group);
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

/// A machine beside devices.
struct Host {
  std::string name;   // "node7"; empty: it has none
  int64_t bytes = 0;  // that it has free
};
/// Those of a run: what is offloaded and the snapshot of checkpoints are in their memory.
struct Hosts {
  std::vector<Host> all = {};  // empty: as the slice has them, and nobody knows what they have
  /// The host of every chip of a mesh, as its place in `all`.
  std::function<std::vector<int64_t>(const ir::Mesh& mesh)> of_chips = {};
  bool keep_snapshot = true;  // checkpoints are saved
};

/// What the chips may use.
struct Limits {
  std::vector<int64_t> of_chips = {};  // bytes that the recipe sets, 0: the hardware's own; empty: that for all
  /// The part of a chip's memory out of which the backend's programs are served; a limit of the recipe does not make it
  /// larger.
  double pool_share = 1;
};

/// Bytes that programs may use of a device; absent: not known.
std::optional<int64_t> pool_of(const hw::Chip& device, double pool_share);

/// `reserved` is of the chips of each stage, as their backend has it before anything measured corrects it. Virtual
/// chips of a machine share its memory: one without a limit of its own may take what the others of its machine and the
/// snapshot of checkpoints leave.
FitReport fit_report(const compile::Compiled& compiled, const hw::Slice& slice, const Limits& limits,
                     const std::vector<Reservation>& reserved, const PlanCorrection& correction = {},
                     const Hosts& hosts = {});

}  // namespace megacpp::fit
