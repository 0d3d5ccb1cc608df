// SPDX-License-Identifier: Apache-2.0
// Every chip's plan against what that chip may use, before anything is allocated. Nothing here asks the machine: limits
// come in as numbers, so that the same check serves a run and a plan for chips that are not here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::memory {

struct ChipFit {
  int64_t chip = 0;
  const MemoryPlan* plan = nullptr;
  int64_t limit_bytes = 0;
  bool own_limit = false;  // the chip's own; otherwise an even share of the machine, which others may leave to it

  int64_t planned_bytes() const { return plan->total_bytes; }
  int64_t free_bytes() const { return limit_bytes - plan->total_bytes; }  // bytes; below 0: it does not fit
  bool overflows() const { return own_limit && free_bytes() < 0; }
};

struct Limits {
  std::vector<int64_t> of_chips = {};  // bytes by chip, 0: none of its own; empty: no chip has one
  int64_t machine_bytes = INT64_MAX;   // what all chips share
  /// Whose memory that is: their host's, or a device's that virtual chips share (compile).
  OomClass shared_class = OomClass::host;
};

struct FitCheck {
  std::vector<ChipFit> chips;  // of this machine, the one with the least free memory first
  Limits limits;
  int64_t total_bytes = 0;  // of all plans
  /// compile: a chip's own limit; Limits::shared_class: what all chips share; nothing: it fits.
  std::optional<OomClass> misfit;

  int64_t overflowing() const;  // chips beyond their own limits
};

/// `plans` are by chip and must outlive the result; null: the chip is on another machine, and not looked at.
FitCheck check_fit(const std::vector<const MemoryPlan*>& plans, const Limits& limits);

/// Bytes at the peak by what they are for, most first; without padding.
std::vector<RoleBytes> bytes_by_role(const MemoryPlan& plan);

/// The largest pieces of a plan, as an error carries them.
std::vector<OomPiece> pieces_of(const MemoryPlan& plan);

/// "weight 1.00 GiB, activation 512.00 MiB; largest 64.00 MiB dot f32[..] @head": by role, and the largest pieces.
std::string contents_text(const MemoryPlan& plan);

/// What to change where a plan exceeds a limit of so many bytes: a smaller batch shrinks what comes and goes, never
/// what stays.
std::string next_for_chip(const MemoryPlan& plan, int64_t limit, const ir::Mesh& mesh);

/// "chip 3: data 1 on host tpu-7"
std::string place_of(int64_t chip, const ir::Mesh& mesh, const std::string& host);

/// E2001 for a check with a misfit: the worst chip with its coordinates and host, what its bytes are for, the largest.
OutOfMemory misfit_error(const FitCheck& check, const ir::Mesh& mesh, const std::string& host);

/// What the chips of a host keep in its memory, beside their own, and what it has free for that.
struct HostFit {
  int64_t offloaded_bytes = 0;   // in pinned memory, of all its chips
  int64_t activation_bytes = 0;  // of these: activations; the others are the optimizer's state
  int64_t snapshot_bytes = 0;    // that checkpoints are written from, of all its chips
  int64_t limit_bytes = 0;
  int64_t chip = 0;  // the first of them

  int64_t state_bytes() const { return offloaded_bytes - activation_bytes; }
  int64_t needed_bytes() const { return offloaded_bytes + snapshot_bytes; }
  bool fits() const { return needed_bytes() <= limit_bytes; }
};

/// E2001 where that is more than the host has. `where` names the host.
OutOfMemory host_misfit_error(const HostFit& fit, const std::string& where);

}  // namespace megacpp::memory
