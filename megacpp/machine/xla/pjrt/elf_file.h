// SPDX-License-Identifier: Apache-2.0
// Whether a shared library is as long as its own headers say. The loader maps what they name without looking, and the
// first access behind the end of the file is then a SIGBUS, in this process.
#pragma once

#include <cstddef>
#include <span>

#include "megacpp/core/base/decision.h"

namespace megacpp::runtime::pjrt {

/// Of the bytes of a file. A file that is not ELF of this machine's word size is allowed: the loader refuses it itself.
base::Decision is_whole_elf_file(std::span<const std::byte> file);

}  // namespace megacpp::runtime::pjrt
