// SPDX-License-Identifier: Apache-2.0
// The endpoint of a process that no other takes part with: a run that was started without a launcher.
#pragma once

#include <memory>

#include "megacpp/collectives/processes/endpoint.h"

namespace megacpp::collectives {

std::unique_ptr<Endpoint> lone_endpoint();

}  // namespace megacpp::collectives
