// SPDX-License-Identifier: Apache-2.0
// Signatures of version 1 in the words of version 2: the layout's policy was called lane, an injected fault a drill,
// and keys had no platform.
#pragma once

#include "megacpp/catalog/database.h"

namespace megacpp::catalog {

/// Call it inside a transaction, once all columns of today are there. Where two signatures become the same, the
/// older one keeps the rows of both.
void rewrite_signatures(const Database& database);

}  // namespace megacpp::catalog
