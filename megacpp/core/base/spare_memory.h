// SPDX-License-Identifier: Apache-2.0
// Memory for the moment when there is no more. The first `new` that the system refuses throws std::bad_alloc as ever,
// and gives this memory back before: what is destroyed on the way out may allocate, as a JSON value does, and would end
// the program; and so may what then says that memory ran out.
#pragma once

namespace megacpp::base {

/// From here on, in the whole process.
void keep_spare_memory();
/// Where memory had run out and the process goes on. Nothing where keep_spare_memory() was not called.
void refill_spare_memory();

}  // namespace megacpp::base
