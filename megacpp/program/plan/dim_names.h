// SPDX-License-Identifier: Apache-2.0
// The dimensions of blocks/parallel.h in words a user understands.
#pragma once

#include <string_view>

#include "megacpp/program/blocks/parallel.h"

namespace megacpp::plan {

std::string_view dim_name(blocks::Dim dim);  // "query heads"

}  // namespace megacpp::plan
