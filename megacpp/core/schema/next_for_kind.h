// SPDX-License-Identifier: Apache-2.0
// What to do about a text that is no value of a key's kind.
#pragma once

#include <string>

#include "megacpp/core/schema/key.h"

namespace megacpp::schema {

/// "did you mean '16GiB'?" where a size with another unit is meant, "did you mean true?" where a truth is in other
/// words, else what to read about the key.
std::string next_for_kind(const KeySpec& key, const std::string& text);

}  // namespace megacpp::schema
