// SPDX-License-Identifier: Apache-2.0
// The runtime that a run was set up for beside the one it found: what its lock file documents, what is live, and what
// differs. A plain record, for receipts and run directories; how it is made stands in check.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/json.h"
#include "megacpp/core/base/record.h"

namespace megacpp::lineage {

/// One thing of a runtime that a lock file pins: {"sqlite", "3.40.1"}.
struct Fact {
  std::string name = {};
  std::string value = {};

  bool operator==(const Fact&) const = default;
};
using Facts = std::vector<Fact>;

/// The value of what a machine does not have.
inline constexpr const char* kNone = "none";

/// Nullptr for a name that is not among them.
const std::string* find_value(const Facts& facts, std::string_view name);

/// A fact whose live value is not the documented one.
struct Drift {
  std::string name = {};
  std::string documented = {};
  std::string live = {};
  std::string fix = {};  // what to do about it

  bool operator==(const Drift&) const = default;
};

struct Lineage {
  std::string lock_file = {};  // that documents it; empty: there is none
  std::string unread = {};     // why that file could not be compared with, with its code; empty: it was
  Facts documented = {};       // all of the file, in its order
  Facts live = {};             // those that launches ask
  std::vector<Drift> drifts = {};

  bool operator==(const Lineage&) const = default;
};

template <typename Visit, base::Is<Fact> Self>
void visit_fields(const Visit& visit, Self& fact) {
  visit("name", fact.name);
  visit("value", fact.value);
}

template <typename Visit, base::Is<Drift> Self>
void visit_fields(const Visit& visit, Self& drift) {
  visit("name", drift.name);
  visit("documented", drift.documented);
  visit("live", drift.live);
  visit("fix", drift.fix);
}

template <typename Visit, base::Is<Lineage> Self>
void visit_fields(const Visit& visit, Self& lineage) {
  visit("lock_file", lineage.lock_file);
  visit("unread", lineage.unread);
  visit("documented", lineage.documented);
  visit("live", lineage.live);
  visit("drifts", lineage.drifts);
}

base::Json to_json(const Lineage& lineage);
/// What is absent or of another kind stays empty.
Lineage lineage_of(const base::Json& json);

/// "sqlite 3.40.1, documented 3.39.0: install it again, or ..."
std::string to_text(const Drift& drift);

}  // namespace megacpp::lineage
