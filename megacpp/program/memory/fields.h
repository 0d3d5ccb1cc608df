// SPDX-License-Identifier: Apache-2.0
// The members of a memory plan's pieces, as JSON has them (base/record.h). For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/program/memory/memory_plan.h"

namespace megacpp::memory {

template <typename Visit, base::Is<Item> Self>
void visit_fields(const Visit& visit, Self& item) {
  visit("role", ir::role_name(item.role));
  visit("letter", item.letter, "of the block; empty outside blocks");
  visit("block", item.block);
  visit("bytes", item.bytes);
}

template <typename Visit, base::Is<Allocation> Self>
void visit_fields(const Visit& visit, Self& piece) {
  visit("what", piece.what, "op and type, or name of the state");
  visit("scope", piece.scope);
  visit("role", ir::role_name(piece.role));
  visit("bytes", piece.bytes);
}

}  // namespace megacpp::memory
