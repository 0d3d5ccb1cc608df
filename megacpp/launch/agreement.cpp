// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/agreement.h"

#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/fit/ladder.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/recipe/print.h"
#include "megacpp/runtime/backend.h"

namespace megacpp::launch {
namespace {

using collectives::Field;

std::vector<Field> fields_of(const recipe::Recipe& recipe) {
  std::vector<Field> fields;
  for (recipe::Setting& setting : recipe::settings_of(recipe))
    fields.push_back({std::move(setting.key), std::move(setting.value)});
  return fields;
}

// Where only devices know what they have, nothing here limits a plan.
ProcessOptions with_free_memory(ProcessOptions options, const recipe::Recipe& recipe) {
  if (!options.free_memory)
    options.free_memory = [recipe] {
      return runtime::backend_named(recipe.backend).free_bytes(recipe).value_or(INT64_MAX);
    };
  return options;
}

}  // namespace

Agreement::Agreement(const recipe::Recipe& requested, ProcessOptions options)
    : options_(with_free_memory(std::move(options), requested)),
      world_(options_.transport.make({.chips = recipe::chips_of(requested.layout),
                                      .wait_limit = std::chrono::seconds(requested.train.wait_limit)})) {
  together([&] {
    std::vector<Field> fields = fields_of(requested);
    const catalog::Build build = options_.build(requested);
    fields.push_back({"build", build.code_version});
    fields.push_back({"platform", build.platform});
    world_->agree_same("recipe and build", fields);
  });
}

int64_t Agreement::free_memory() { return world_->agree_min("free memory", options_.free_memory()); }

std::string Agreement::from_coordinator(std::string_view subject, const std::function<std::string()>& make) {
  return world_->share(subject, is_coordinator() ? make() : "").front();
}

std::string Agreement::first_of(std::string_view subject, std::string_view own) {
  for (std::string& text : world_->share(subject, own))
    if (!text.empty()) return std::move(text);
  return "";
}

// Part of every step: one process needs no words.
Status Agreement::agree_status(Status here) {
  if (is_alone()) return here;
  return static_cast<Status>(-world_->agree_min("status of the run", -static_cast<int64_t>(here)));
}

void Agreement::same_estimate(size_t rung, const plan::Changes& changes, const fit::Estimate& estimate) {
  std::vector<Field> fields = fields_of(estimate.recipe);
  fields.push_back({"rung", std::to_string(rung)});
  fields.push_back({"changes", fit::to_text(changes)});
  for (size_t stage = 0; stage < estimate.compiled.stages.size(); ++stage)
    fields.push_back({fmt::format("bytes per chip of stage {}", stage),
                      std::to_string(estimate.compiled.stages[stage].memory.total_bytes)});
  world_->agree_same("plan", fields);
}

}  // namespace megacpp::launch
