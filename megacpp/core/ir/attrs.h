// SPDX-License-Identifier: Apache-2.0
// Attributes of a node: a small map from name to integer, real, text or integer list, kept sorted by name so
// that printing is deterministic. Two conventions let later stages rewrite nodes without knowing the op:
//   - a result shape that operands do not determine stands in the attribute "shape", and nowhere else;
//   - flags are integers 0 and 1.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace megacpp::ir {

using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

class Attrs {
 public:
  using Entries = std::vector<std::pair<std::string, Attr>>;

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

  const Entries& entries() const { return entries_ ? *entries_ : kNone; }
  bool empty() const { return entries().empty(); }
  bool operator==(const Attrs& other) const { return entries_ == other.entries_ || entries() == other.entries(); }

 private:
  const Attr* find(std::string_view name) const;
  Entries& own();

  // Sorted by name; null where there are none. Shared by the copies of a node, which every pass makes and few change.
  // Threads may read copies of one; one that changes a copy must not do so while another drops one.
  std::shared_ptr<Entries> entries_;
  static inline const Entries kNone = {};
};

}  // namespace megacpp::ir
