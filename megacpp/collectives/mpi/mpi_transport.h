// SPDX-License-Identifier: Apache-2.0
// The transport of the launch that this process is part of.
#pragma once

#include "megacpp/collectives/transport.h"

namespace megacpp::collectives {

/// mpi where a launcher has started several processes, otherwise inproc.
Transport transport_of_launch();

}  // namespace megacpp::collectives
