// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/base/error.h"
#include "megacpp/blocks/block.h"

namespace megacpp::blocks {

#define MEGACPP_BLOCK(name) BlockDef name##_block();
#include "megacpp/blocks/block_list.inc"
#undef MEGACPP_BLOCK

const std::vector<BlockDef>& all_blocks() {
  static const std::vector<BlockDef> table = {
#define MEGACPP_BLOCK(name) name##_block(),
#include "megacpp/blocks/block_list.inc"
#undef MEGACPP_BLOCK
  };
  return table;
}

const BlockDef& block_def(char letter) {
  const auto& table = all_blocks();
  const auto at =
      std::find_if(table.begin(), table.end(), [letter](const BlockDef& def) { return def.letter == letter; });
  MEGACPP_CHECK(at != table.end()) << "no block family '" << letter << "'";
  return *at;
}

ValueId BuildContext::reshard(ValueId x, const std::vector<Dim>& from, const std::vector<Dim>& to) const {
  if (parallel.is_one_chip()) return x;
  const ir::Sharding before = parallel.sharding(from), after = parallel.sharding(to);
  return builder.one("reshard", {x},
                     {{"from", ir::to_string(before, parallel.mesh)}, {"to", ir::to_string(after, parallel.mesh)}});
}

ValueId BuildContext::enter(ValueId x) const {
  return reshard(x, {Dim::batch, Dim::stream, Dim::whole}, {Dim::batch, Dim::sequence, Dim::whole});
}

ValueId BuildContext::leave(ValueId y) const {
  return reshard(y, {Dim::batch, Dim::sequence, Dim::whole}, {Dim::batch, Dim::stream, Dim::whole});
}

ValueId project(const BuildContext& context, ValueId x, const std::string& weight) {
  return context.builder.matmul(x, context.weight(weight));
}

}  // namespace megacpp::blocks
