// SPDX-License-Identifier: Apache-2.0
// The table of element types, and nothing else: a test may be built with a list of its own, which begins as this one.
#include "megacpp/core/ir/dtype.h"

#ifndef MEGACPP_DTYPE_LIST
#define MEGACPP_DTYPE_LIST "megacpp/core/ir/dtype_list.inc"
#endif

namespace megacpp::ir {

#define MEGACPP_DTYPE(name) DTypeRecord name##_dtype();
#include MEGACPP_DTYPE_LIST
#undef MEGACPP_DTYPE

std::span<const DTypeRecord> all_dtypes() {
  static const DTypeRecord table[] = {
#define MEGACPP_DTYPE(name) name##_dtype(),
#include MEGACPP_DTYPE_LIST
#undef MEGACPP_DTYPE
  };
  return table;
}

}  // namespace megacpp::ir
