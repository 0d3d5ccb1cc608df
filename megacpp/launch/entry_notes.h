// SPDX-License-Identifier: Apache-2.0
// What a reader should know of an entry before believing it: that another build or plugin wrote it, and what it names
// that this build does not have. Such an entry is shown like any other.
#pragma once

#include <string>
#include <vector>

#include "megacpp/catalog/catalog.h"

namespace megacpp::launch {

/// Whether this very program wrote it; a plugin that is not the one here is another, too.
bool is_of_this_build(const catalog::Signature& signature);

/// A line each for another build, a chip, a backend, a block family, an optimizer, or any key and value that is not
/// there.
std::vector<std::string> notes_of(const catalog::Entry& entry);

}  // namespace megacpp::launch
