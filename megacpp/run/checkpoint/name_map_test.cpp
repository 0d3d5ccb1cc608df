// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/name_map.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::checkpoint {
namespace {

/// Two matrices [2, 3] of theirs become slices of one tensor [2, 3, 2] of ours; a conv loses its middle and is cut in
/// two along its rows.
NameMap small_map() {
  return {.pieces = {{.ours = "w", .our_shape = {2, 3, 2}, .theirs = "e.0", .their_shape = {2, 3}, .transposed = true},
                     {.ours = "w",
                      .our_shape = {2, 3, 2},
                      .theirs = "e.1",
                      .their_shape = {2, 3},
                      .transposed = true,
                      .slice_begin = 1},
                     {.ours = "c", .our_shape = {2, 2}, .theirs = "conv", .their_shape = {3, 1, 2}},
                     {.ours = "d", .our_shape = {1, 2}, .theirs = "conv", .their_shape = {3, 1, 2}, .row_begin = 2}},
          .ignored = {"tied"}};
}

TensorMap small_tensors() {
  return {{"e.0", {{2, 3}, {1, 2, 3, 4, 5, 6}}},
          {"e.1", {{2, 3}, {7, 8, 9, 10, 11, 12}}},
          {"conv", {{3, 1, 2}, {1, 2, 3, 4, 5, 6}}}};
}

base::Problem import_refusal(const TensorMap& theirs) {
  return testing_support::problem_of(base::Code::E1203, [&] { import_tensors(small_map(), theirs); });
}

TEST(NameMapTest, PiecesComeIntoPlace) {
  const TensorMap ours = import_tensors(small_map(), small_tensors());
  EXPECT_EQ(ours.at("w").data, (std::vector<float>{1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}));
  EXPECT_EQ(ours.at("c").shape, (ir::Shape{2, 2}));
  EXPECT_EQ(ours.at("c").data, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(ours.at("d").data, (std::vector<float>{5, 6}));
}

TEST(NameMapTest, ExportUndoesImport) {
  const TensorMap theirs = export_tensors(small_map(), import_tensors(small_map(), small_tensors()));
  for (const auto& [name, tensor] : small_tensors()) {
    EXPECT_EQ(theirs.at(name).data, tensor.data) << name;
    EXPECT_EQ(theirs.at(name).shape, tensor.shape) << name;
  }
}

TEST(NameMapTest, InterleavedTensorsComeApartAndTogether) {
  const NameMap map{
      .pieces = {
          {.ours = "even", .our_shape = {2, 2}, .theirs = "w", .their_shape = {2, 4}, .step = 2},
          {.ours = "odd", .our_shape = {2, 2}, .theirs = "w", .their_shape = {2, 4}, .row_begin = 1, .step = 2}}};
  const TensorMap theirs = {{"w", {{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}}};
  const TensorMap ours = import_tensors(map, theirs);
  EXPECT_EQ(ours.at("even").data, (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(ours.at("odd").data, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(export_tensors(map, ours).at("w").data, theirs.at("w").data);
}

TEST(NameMapTest, StateThatNoGradientChangesIsNotTrained) {
  NameMap map = small_map();
  map.pieces[2].is_trained = false;
  EXPECT_EQ(trained(map).pieces.size(), map.pieces.size() - 1);
  EXPECT_EQ(trained(map).ignored, map.ignored);
}

TEST(NameMapTest, MissingMisshapenAndStrangeTensorsAreRefusedByName) {
  TensorMap theirs = small_tensors();
  theirs.erase("e.1");
  EXPECT_EQ(import_refusal(theirs).where, "tensor e.1");
  theirs = small_tensors();
  theirs["conv"].shape = {2, 2};
  EXPECT_EQ(import_refusal(theirs).got, "[2,2]");
  theirs = small_tensors();
  theirs["bias"] = {{1}, {0}};
  EXPECT_EQ(import_refusal(theirs).where, "tensor bias");
}

TEST(NameMapTest, TiedHeadsAndRopeTablesArePassedOver) {
  TensorMap theirs = small_tensors();
  theirs["tied"] = {{1}, {0}};
  theirs["model.rotary_emb.inv_freq"] = {{1}, {0}};
  EXPECT_NO_THROW(import_tensors(small_map(), theirs));
}

}  // namespace
}  // namespace megacpp::checkpoint
