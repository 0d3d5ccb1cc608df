// SPDX-License-Identifier: Apache-2.0
// The table of families, and nothing else: a test may be built with a list of its own.
#include "megacpp/program/blocks/block.h"

#ifndef MEGACPP_BLOCK_LIST
#define MEGACPP_BLOCK_LIST "megacpp/program/blocks/block_list.inc"
#endif

namespace megacpp::blocks {

#define MEGACPP_BLOCK(name) BlockDef name##_block();
#include MEGACPP_BLOCK_LIST
#undef MEGACPP_BLOCK

const std::vector<BlockDef>& all_blocks() {
  static const std::vector<BlockDef> table = {
#define MEGACPP_BLOCK(name) name##_block(),
#include MEGACPP_BLOCK_LIST
#undef MEGACPP_BLOCK
  };
  return table;
}

}  // namespace megacpp::blocks
