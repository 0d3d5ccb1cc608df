// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "megacpp/core/base/error.h"

namespace megacpp::train {
namespace {

void require_range(bool holds, const char* name, double value, const char* wanted) {
  MEGACPP_REQUIRE(holds, E1003,
                  {.where = name, .got = fmt::format("{}", value), .wanted = wanted, .next = "give another value"});
}

}  // namespace

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed, "generate") {
  require_range(sampling.temperature >= 0 && std::isfinite(sampling.temperature), "temperature", sampling.temperature,
                "a number of 0 or more");
  require_range(sampling.top_k >= 0, "top-k", static_cast<double>(sampling.top_k), "0 (all tokens) or more");
  require_range(sampling.top_p > 0 && sampling.top_p <= 1, "top-p", sampling.top_p, "above 0 and at most 1");
}

int32_t Sampler::choose(std::span<const float> logits, int64_t sequence, int64_t position) {
  if (sampling_.temperature == 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto kept = static_cast<int64_t>(logits.size());
  const int64_t count = sampling_.top_k == 0 ? kept : std::min(sampling_.top_k, kept);
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::partial_sort(order_.begin(), order_.begin() + count, order_.end(), is_likelier);
  weights_.resize(static_cast<size_t>(count));
  const double highest = logits[static_cast<size_t>(order_[0])];
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = std::exp((logits[static_cast<size_t>(order_[i])] - highest) / sampling_.temperature);
    sum += weights_[i];
  }
  double nucleus = 0;
  size_t size = 0;
  while (size < weights_.size() && (size == 0 || nucleus < sampling_.top_p * sum)) nucleus += weights_[size++];
  double left = random_.uniform(static_cast<uint64_t>(position), static_cast<uint32_t>(sequence)) * nucleus;
  for (size_t i = 0; i + 1 < size; ++i) {
    left -= weights_[i];
    if (left < 0) return order_[i];
  }
  return order_[size - 1];
}

}  // namespace megacpp::train
