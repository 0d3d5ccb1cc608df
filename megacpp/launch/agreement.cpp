// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/agreement.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "megacpp/fit/ladder.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/recipe/print.h"

namespace megacpp::launch {

Agreement::Agreement(const recipe::Recipe& requested, ProcessOptions options)
    : options_(std::move(options)),
      world_(options_.transport.make({.chips = recipe::chips_of(requested.layout),
                                      .wait_limit = std::chrono::seconds(requested.train.wait_limit)})) {
  world_->agree_same("recipe", recipe::print(requested));
}

int64_t Agreement::free_memory() { return world_->agree_min("free memory", options_.free_memory()); }

void Agreement::same_rung(size_t rung, const plan::Changes& changes) {
  world_->agree_same("rung of the ladder", fmt::format("rung {}: {}", rung, fit::to_text(changes)));
}

}  // namespace megacpp::launch
