// SPDX-License-Identifier: Apache-2.0
// The process's own bytes beside the plan: what the system counts of a training run that no plan of a chip holds.
#pragma once

#include <optional>
#include <string>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/process_memory.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/runtime/executable.h"

namespace megacpp::cli {

struct ProcessBytes {
  base::ProcessMemory counted;
  int64_t planned = 0;  // of the local chips, where they are in this process; 0: their memory is elsewhere

  int64_t buffers() const;  // mapped for other things than arenas
  int64_t named() const;    // all but the plan
};

/// While the run holds its memory. Nothing where the system does not tell.
std::optional<ProcessBytes> process_bytes(const fit::Estimate& estimate, const runtime::Executable& run);

std::string to_text(const ProcessBytes& bytes);  // a line
Json to_json(const std::optional<ProcessBytes>& bytes);

}  // namespace megacpp::cli
