// SPDX-License-Identifier: Apache-2.0
// Small models and layouts drawn from words: random ones, or the bytes of a fuzzer. Every model is one that a recipe
// may have; of a layout the gates decide.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::testing_support {

class Draw {
 public:
  /// `word` gives 32 bits, anew with each call.
  explicit Draw(std::function<uint32_t()> word) : word_(std::move(word)) {}

  int64_t below(int64_t count) {
    return static_cast<int64_t>((uint64_t{word_()} * static_cast<uint64_t>(count)) >> 32);
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  template <typename T>
  T any_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  bool one_in(int64_t count) { return below(count) == 0; }
  int64_t divisor_of(int64_t whole) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= whole; ++d)
      if (whole % d == 0) divisors.push_back(d);
    return divisors[static_cast<size_t>(below(static_cast<int64_t>(divisors.size())))];
  }

 private:
  std::function<uint32_t()> word_;
};

/// Overrides of a base recipe.
class Overrides {
 public:
  template <typename T>
  void set(const std::string& key, const T& value) {
    all_.push_back(fmt::format("{}={}", key, value));
  }
  recipe::Recipe recipe() const;
  std::string command() const;  // that trains it

 private:
  std::vector<std::string> all_;
};

/// Whether it has experts that a layout can spread.
bool draw_model(Draw& draw, Overrides& overrides);
void draw_training(Draw& draw, Overrides& overrides);
/// 2 to 8 chips.
void draw_layout(Draw& draw, bool has_experts, Overrides& overrides);

}  // namespace megacpp::testing_support
