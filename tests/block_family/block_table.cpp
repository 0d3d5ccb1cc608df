// SPDX-License-Identifier: Apache-2.0
// The table of families, built from the list of this test instead of the shipped one.
#define MEGACPP_BLOCK_LIST "tests/block_family/block_list.inc"
#include "megacpp/program/blocks/block_table.cpp"
