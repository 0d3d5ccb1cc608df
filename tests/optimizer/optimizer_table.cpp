// SPDX-License-Identifier: Apache-2.0
// The table of optimizers, built from the list of this test instead of the shipped one.
#define MEGACPP_OPTIMIZER_LIST "tests/optimizer/optimizer_list.inc"
#include "megacpp/program/optim/optimizer_table.cpp"
