// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/global_batch.h"

#include <fmt/format.h>

#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::recipe {
namespace {

constexpr const char* kGlobalBatch = "train.global_batch";
constexpr const char* kMicroSteps = "train.micro_steps";

bool is_given_by_set(const Origins& origins, std::string_view path) {
  const auto at = origins.find(path);
  return at != origins.end() && at->second.starts_with("--set");
}

std::string nearest_multiples(int64_t value, int64_t batch) {
  const int64_t below = value / batch * batch;
  return below == 0 ? std::to_string(batch) : fmt::format("{} or {}", below, below + batch);
}

}  // namespace

void resolve_global_batch(Recipe& recipe, const Origins& origins) {
  Train& train = recipe.train;
  for (const char* path : {kGlobalBatch, kMicroSteps, "train.batch"}) validate_key(*find_key(path), recipe, origins);
  const int64_t total = std::exchange(train.global_batch, 0);
  const bool is_by_set = is_given_by_set(origins, kGlobalBatch),
             are_steps_by_set = is_given_by_set(origins, kMicroSteps);
  if (total == 0 || (are_steps_by_set && !is_by_set)) return;
  MEGACPP_REQUIRE(total % train.batch == 0, E1005,
                  {.where = place(origins, kGlobalBatch),
                   .got = fmt::format("{} sequences a step, with {} a micro-step", total, train.batch),
                   .wanted = "a multiple of train.batch",
                   .next = fmt::format("set train.global_batch: {}", nearest_multiples(total, train.batch))});
  const int64_t steps = total / train.batch;
  const bool is_other = origins.contains(kMicroSteps) && train.micro_steps != steps && is_by_set == are_steps_by_set;
  MEGACPP_REQUIRE(
      !is_other, E1003,
      {.where = place(origins, kMicroSteps),
       .got = fmt::format("{}, with train.global_batch: {}", train.micro_steps, total),
       .wanted = fmt::format("{}: the {} sequences of a step over train.batch: {}", steps, total, train.batch),
       .next = "remove train.micro_steps, which follows, or train.global_batch"});
  train.micro_steps = steps;
}

}  // namespace megacpp::recipe
