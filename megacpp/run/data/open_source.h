// SPDX-License-Identifier: Apache-2.0
// From the data section of a recipe to the source of its tokens.
#pragma once

#include <memory>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/data/source.h"

namespace megacpp::data {

/// The datasets of data.blend, or the text of data.text. E1003 for a weight that is no number above 0, and when both
/// are given; E1008 for files that cannot be read or contradict themselves, E1101 for those that have nothing.
std::unique_ptr<TokenSource> open_source(const recipe::Data& data);

}  // namespace megacpp::data
