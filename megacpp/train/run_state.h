// SPDX-License-Identifier: Apache-2.0
// Fills a loaded run's weights. Each parameter is drawn (or copied) straight into its storage: no second copy of the
// model.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::train {

void initialise_weights(runtime::Executable& run, const std::vector<blocks::Parameter>& parameters, uint64_t seed);

/// A state tensor's bytes as numbers; the size must be a multiple of T.
template <typename T>
std::span<T> state_as(runtime::Executable& run, const std::string& name) {
  const std::span<std::byte> bytes = run.state(name);
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace megacpp::train
