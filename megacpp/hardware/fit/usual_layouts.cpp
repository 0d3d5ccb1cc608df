// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/usual_layouts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

namespace megacpp::fit {
namespace {

/// Which layouts are of the kind; larger is nearer to what is meant, of equal ones the first.
struct UsualKind {
  std::function<bool(const LayoutChoice&, int64_t node)> is_one;
  std::function<std::tuple<int64_t, int64_t>(const LayoutChoice&)> rank;
};

bool has_tensor_in_node(const LayoutChoice& c, int64_t node) {
  return c.tensor > 1 && c.tensor <= node && c.expert == 1 && c.context == 1;
}

/// How far it is from whole weights with the optimizer shared out, which ZeRO 1 is: without ZeRO last.
int64_t from_shared_optimizer(const LayoutChoice& c) { return c.zero == 0 ? 4 : c.zero; }

const std::array<UsualKind, 5>& usual_kinds() {
  static const std::array<UsualKind, 5> kKinds = {{
      // FSDP: all chips share the batch and hold parts of everything.
      {[](const LayoutChoice& c, int64_t) { return c.expert * c.context * c.tensor * c.pipeline == 1; },
       [](const LayoutChoice& c) { return std::tuple(c.zero, int64_t{0}); }},
      // Tensor parallelism as wide as a node, with a whole copy around it, and with FSDP.
      {[](const LayoutChoice& c, int64_t node) { return has_tensor_in_node(c, node) && c.pipeline == 1; },
       [](const LayoutChoice& c) { return std::tuple(c.tensor, -from_shared_optimizer(c)); }},
      {[](const LayoutChoice& c, int64_t node) { return has_tensor_in_node(c, node) && c.pipeline == 1; },
       [](const LayoutChoice& c) { return std::tuple(c.tensor, c.zero); }},
      // Experts on as many chips as can have some, and FSDP.
      {[](const LayoutChoice& c, int64_t) { return c.expert > 1 && c.context * c.tensor * c.pipeline == 1; },
       [](const LayoutChoice& c) { return std::tuple(c.expert, c.zero); }},
      // Megatron: tensor parallelism in a node, few stages, and the optimizer shared out.
      {[](const LayoutChoice& c, int64_t node) { return has_tensor_in_node(c, node) && c.pipeline > 1; },
       [](const LayoutChoice& c) { return std::tuple(c.tensor, -(c.pipeline * 8 + from_shared_optimizer(c))); }},
  }};
  return kKinds;
}

}  // namespace

int64_t chips_of_node(const hw::Slice& slice) { return hw::product(slice.chip.slices.host) * slice.chip.devices; }

std::vector<size_t> usual_layouts(std::span<const LayoutChoice> layouts, int64_t node) {
  std::set<size_t> found;
  for (const UsualKind& kind : usual_kinds()) {
    std::optional<size_t> best;
    for (size_t i = 0; i < layouts.size(); ++i)
      if (kind.is_one(layouts[i], node) && (!best || kind.rank(layouts[i]) > kind.rank(layouts[*best]))) best = i;
    if (best) found.insert(*best);
  }
  return {found.begin(), found.end()};
}

}  // namespace megacpp::fit
