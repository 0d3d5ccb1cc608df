// SPDX-License-Identifier: Apache-2.0
// sweep.json: what a sweep has run so far.
#pragma once

#include <filesystem>
#include <optional>

#include "megacpp/evidence/sweep/sweep.h"

namespace megacpp::sweep {

void write_sweep(const Sweep& sweep);
/// Nothing where the folder has none; E1008 where it cannot be understood.
std::optional<Sweep> read_sweep(const std::filesystem::path& folder);

}  // namespace megacpp::sweep
