// SPDX-License-Identifier: Apache-2.0
// A backend for tests: the ops' reference kernels in double precision, on one chip. It is known to nobody but its
// tests, which hand its record to what trains: everything a backend must be is in the record.
#pragma once

#include "megacpp/machine/runtime/backend.h"

namespace megacpp::testing_support {

runtime::Backend reference_backend();

}  // namespace megacpp::testing_support
