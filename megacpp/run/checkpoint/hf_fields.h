// SPDX-License-Identifier: Apache-2.0
// Typed reading of a Hugging Face config. A null counts as absent, as it does there. Every refusal is E1202 and names
// the model class and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/json.h"

namespace megacpp::checkpoint {

struct HfInterval {
  double low;
  double high;
};

class HfFields {
 public:
  /// `context` stands before field names in errors, e.g. "LlamaForCausalLM".
  HfFields(const base::Json& config, std::string context);

  bool has(std::string_view field) const { return find(field) != nullptr; }
  /// Whether the field is there at all, null too: classes may have a default for one that is not.
  bool mentions(std::string_view field) const;
  /// A size of at least 1 that must be given.
  int64_t size(std::string_view field) const;
  int64_t size_or(std::string_view field, int64_t otherwise) const;
  double number_or(std::string_view field, double otherwise) const;
  /// A number that must be given.
  double number(std::string_view field) const;
  bool flag_or(std::string_view field, bool otherwise) const;
  bool is_text(std::string_view field) const;
  std::string text_or(std::string_view field, const std::string& otherwise) const;
  std::vector<std::string> texts(std::string_view field) const;
  /// A list of integers; absent: none.
  std::vector<int64_t> integers(std::string_view field) const;
  /// The two numbers of a list.
  HfInterval interval_or(std::string_view field, HfInterval otherwise) const;
  const std::string& context() const { return context_; }
  HfFields object(std::string_view field) const;
  std::vector<std::string> names() const;

  /// Refuses a field that is present and not null, false, 0 or an empty object.
  void require_off(std::initializer_list<std::string_view> fields) const;
  /// Refuses a text that is none of `allowed`; absent is allowed.
  void require_one_of(std::string_view field, std::initializer_list<std::string_view> allowed) const;
  [[noreturn]] void refuse(std::string_view field, const std::string& got, const std::string& wanted) const;

 private:
  const base::Json* find(std::string_view field) const;  // null counts as absent

  const base::Json& config_;
  std::string context_;
};

}  // namespace megacpp::checkpoint
