// SPDX-License-Identifier: Apache-2.0
// Bytes as a series of decisions, for targets whose inputs have more structure than bytes: which key to change, to
// what. A byte or two is one decision, so that a small change of the input is a small change of the case. After the
// last byte every decision is the first of its choices.
#pragma once

#include <initializer_list>
#include <string>

#include "tests/fuzz/target.h"

namespace megacpp::fuzz {

class Choices {
 public:
  explicit Choices(Bytes input) : rest_(input) {}

  bool is_empty() const { return rest_.empty(); }
  /// 0 to count - 1; count is positive.
  size_t below(size_t count);
  bool one_in(size_t count) { return below(count) + 1 == count; }
  template <typename T>
  T any_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <typename List>
  const auto& any_of(const List& list) {
    return list[below(list.size())];
  }
  uint8_t byte();
  /// Up to `most` bytes as they are in the input.
  std::string text(size_t most);

 private:
  Bytes rest_;
};

/// A scalar as somebody hostile would write it: bounds of types, words of other kinds, bytes that are no text.
std::string hostile_scalar(Choices& choices);

}  // namespace megacpp::fuzz
