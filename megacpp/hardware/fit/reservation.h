// SPDX-License-Identifier: Apache-2.0
// The bytes that a step takes of a chip, as the backend that runs it answers: `reserve(program, chip)` is a function in
// the backend's record. A backend that places buffers as planned needs the plan, to the byte. One whose compiler places
// them itself says from where to where its need may be, and of what terms it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/hardware/hw/chip.h"

namespace megacpp::plan {
class PlannedRecipe;
}
namespace megacpp::compile {
struct Compiled;
}
namespace megacpp::schedule {
struct Target;
}

namespace megacpp::fit {

struct ShallowPlans;

/// A compiled step of which a backend is asked: the programs of one stage of a pipeline.
struct StepProgram {
  const plan::PlannedRecipe& planned;
  const compile::Compiled& compiled;  // for `target`
  const schedule::Target& target;
  size_t stage = 0;
  /// Of a deep model, whose blocks that repeat were planned once: what was compiled. `compiled` then has memory alone.
  const ShallowPlans* shallow = nullptr;
};

/// A term of what is expected.
struct ReservedTerm {
  std::string name;  // "scores"
  int64_t bytes = 0;
  std::string sentence;  // what they are and why they are there, for a reader of the plan
};

/// Bytes of a chip.
struct Reservation {
  int64_t least = 0, expected = 0, most = 0;  // with the code
  int64_t least_code = 0, code = 0;           // of the least; of what is expected and the most
  int64_t state = 0;                          // stays from step to step: no less is ever needed beside the least code
  /// Of what is expected, alive at once: what is measured of a run is compared with it.
  int64_t alive = 0;
  /// The chip's compiler is asked before anything runs, and has the last word: a launch may take what is close to the
  /// limit, and measurements that say less than `alive` change nothing.
  bool is_asked_first = false;
  std::vector<ReservedTerm> why = {};  // what is expected is their sum; empty: all of it is what was planned

  /// Whether only a compiler can tell what is needed.
  bool is_range() const { return least < most; }
};

/// `device` is the chip as the mesh sees it (hw::device_of). Nothing where the numbers of a deep model's shallow plans
/// are on no line: deeper ones may tell.
using Reserve = std::function<std::optional<Reservation>(const StepProgram& program, const hw::Chip& device)>;

/// By the backend's rule; without one the plan of the stage, to the byte.
std::optional<Reservation> reservation_of(const Reserve& reserve, const StepProgram& program, const hw::Chip& device);

/// As it is where so many bytes were measured to be alive as `alive_bytes` says: all but the code is more or less by as
/// large a part. The one place where what launches measured changes what a plan needs.
Reservation corrected(Reservation reservation, double alive_bytes);

}  // namespace megacpp::fit
