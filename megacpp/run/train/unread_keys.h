// SPDX-License-Identifier: Apache-2.0
// Keys of a recipe that change nothing where a model is used and not trained, each with what decides instead.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/program/recipe/ignored_keys.h"

namespace megacpp::train {

enum class ModelUse : uint8_t { generation, evaluation, conversion };  // to another format

enum class WeightOrigin : uint8_t { drawn, given };  // from the recipe's seed, or by a checkpoint or a folder

struct ModelReading {
  ModelUse use;
  WeightOrigin weights;
};

/// Beside what the model and, where it is evaluated, the layout and the backend leave without effect.
std::vector<recipe::IgnoredKey> unread_keys(const ModelReading& reading);

}  // namespace megacpp::train
