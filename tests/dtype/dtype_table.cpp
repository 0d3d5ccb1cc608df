// SPDX-License-Identifier: Apache-2.0
// The table of element types, built from the list of this test instead of the shipped one.
#define MEGACPP_DTYPE_LIST "tests/dtype/dtype_list.inc"
#include "megacpp/core/ir/dtype_table.cpp"
