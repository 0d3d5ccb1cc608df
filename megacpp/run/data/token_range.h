// SPDX-License-Identifier: Apache-2.0
// Ids that a tokenizer is asked to decode.
#pragma once

#include <cstdint>

#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data {

/// The id, where the vocabulary has it; E1102 otherwise.
int32_t checked_token(const Tokenizer& tokenizer, int32_t id);

}  // namespace megacpp::data
