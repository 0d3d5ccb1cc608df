// SPDX-License-Identifier: Apache-2.0
// Valid documents changed at one or more places of their trees, so that a reader gets past its syntax: a value of
// another kind or size, a member that is missing, doubled under another name, or moved.
#pragma once

#include "megacpp/core/base/json.h"
#include "tests/fuzz/choices.h"

namespace megacpp::fuzz {

/// Up to `most` changes, as the choices decide.
void change_tree(base::Json& document, Choices& choices, size_t most = 4);

/// The value that a hostile scalar stands for: a number, a flag, null, a list or a text.
base::Json hostile_value(Choices& choices);

}  // namespace megacpp::fuzz
