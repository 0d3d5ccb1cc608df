// SPDX-License-Identifier: Apache-2.0
// The lane a launch runs on: whose predictions the catalog corrects alike.
#pragma once

#include <string>

#include "megacpp/base/decision.h"
#include "megacpp/hw/slice.h"

namespace megacpp::fit {

/// "xla v6e" for TPUs, which nothing else compiles for; "cuda h100" or "xla h100" for GPUs; "cpu host" or "xla host"
/// for this machine. `backend` is the recipe's.
std::string lane_name(const hw::Slice& slice, const std::string& backend);

/// The backend that runs there: TPUs have none but xla, whatever the recipe names.
std::string backend_on(const hw::Slice& slice, const std::string& backend);

/// Whether the backend that runs there gives pipeline stages programs of their own.
base::Decision runs_pipelines(const hw::Slice& slice, const std::string& backend);

}  // namespace megacpp::fit
