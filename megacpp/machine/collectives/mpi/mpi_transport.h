// SPDX-License-Identifier: Apache-2.0
// The transport of the launch that this process is part of.
#pragma once

#include "megacpp/machine/collectives/runs.h"
#include "megacpp/machine/collectives/transport.h"

namespace megacpp::collectives {

/// mpi where a launcher has started several processes, otherwise inproc, whose sums are exact.
Transport transport_of_launch(Sums sums = Sums::exact);

}  // namespace megacpp::collectives
