// SPDX-License-Identifier: Apache-2.0
// Names and records of rungs, built from the list of this test instead of the shipped one.
#define MEGACPP_RUNG_LIST "tests/rung/rung_list.inc"
#include "megacpp/hardware/fit/rung_table.cpp"
#include "megacpp/program/recipe/rung_names.cpp"
