// SPDX-License-Identifier: Apache-2.0
// Attributes of a node: a small map from name to integer, real, text or integer list, kept sorted by name so
// that printing is deterministic. Two conventions let later stages rewrite nodes without knowing the op:
//   - a result shape that operands do not determine stands in the attribute "shape", and nowhere else;
//   - flags are integers 0 and 1.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace megacpp::ir {

using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, Attr>> entries);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string name, Attr value);
  void erase(std::string_view name);

  /// Typed access. The first form demands the attribute, the second falls back.
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name) const;
  double real(std::string_view name, double otherwise) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  const std::vector<int64_t>& list(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name, 0) != 0; }

  const std::vector<std::pair<std::string, Attr>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Attrs&) const = default;

 private:
  const Attr* find(std::string_view name) const;
  std::vector<std::pair<std::string, Attr>> entries_;  // sorted by name
};

}  // namespace megacpp::ir
