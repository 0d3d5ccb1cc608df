// SPDX-License-Identifier: Apache-2.0
// In what two runs differ: every field of their headers, every fact of their environments, and which one thing, or
// which several, are behind these. A recipe key moves several fields at once (layout.tensor_parallel: the mesh, the
// chips, the layout), so the keys that differ are the axes, and fields that such a key feeds follow from it. A field or
// a fact that no key explains is an axis itself. A key counts whether a field shows it or not, unless it is known to
// have no part in how long a step takes: a key that is new to recipes is an axis from its first day.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

/// A recipe key, a header field ("program.layout") or a fact of the environment ("lineage.openblas") with its values.
struct Change {
  std::string name;
  std::string baseline;
  std::string other;

  bool operator==(const Change&) const = default;
};

struct FieldChange : Change {
  std::string follows_from = {};  // the axis that explains it; empty: it is an axis itself, or a label
};

struct Differences {
  std::vector<FieldChange> fields = {};  // of the header, in its order, then of the environment
  std::vector<Change> axes = {};         // keys first
  std::vector<Change> unmeasured = {};   // keys that have no part in the time of a step: seeds, steps
  bool has_other_family = false;         // dense, sparse, hybrid: never ranked together

  bool is_confounded() const { return axes.size() > 1 || has_other_family; }
};

Differences differences_of(const receipt::Receipt& baseline, const receipt::Receipt& other);

/// "layout.tensor_parallel: 1 -> 2"
std::string to_text(const Change& change);

}  // namespace megacpp::compare
