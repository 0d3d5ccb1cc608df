// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/box.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace megacpp::checkpoint {
namespace {

std::vector<int32_t> counted(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(BoxTest, PaddingIsNoPartOfAChipsBox) {
  const ir::Mesh mesh({{"data", 2}, {"model", 4}});
  const ir::Sharding sharding{.dims = {{1}, {0}}};
  EXPECT_EQ(to_string(box_of({10, 5}, sharding, mesh, 0)), "[0,0]+[3,3]");
  EXPECT_EQ(to_string(box_of({10, 5}, sharding, mesh, 7)), "[9,3]+[1,2]");  // of a part of [3,3]
  EXPECT_EQ(box_of({2, 5}, sharding, mesh, 3).elements(), 0);
  EXPECT_EQ(box_of({}, {.dims = {}}, mesh, 5).elements(), 1);
}

// From every chip of one sharding to every chip of another, over a size that divides neither.
TEST(BoxTest, PartsOfOneShardingBecomePartsOfAnother) {
  const ir::Shape whole = {7, 5, 3};
  const std::vector<int32_t> values = counted(ir::num_elements(whole));
  const ir::Mesh mesh({{"data", 2}, {"model", 3}});
  const std::vector<ir::Sharding> shardings = {
      {.dims = {{0}, {}, {1}}}, {.dims = {{1}, {0}, {}}}, {.dims = {{0, 1}, {}, {}}}, {.dims = {{}, {}, {}}}};
  const Box all{{0, 0, 0}, whole};
  for (const ir::Sharding& from : shardings)
    for (const ir::Sharding& to : shardings)
      for (int64_t chip = 0; chip < mesh.chips(); ++chip) {
        const Box box = box_of(whole, to, mesh, chip);
        const ir::Shape stored = ir::local_shape(whole, to, mesh);
        std::vector<int32_t> got(static_cast<size_t>(ir::num_elements(stored)), -1), wanted = got;
        for (const ir::LocalRun& run : ir::local_runs(whole, to, mesh, chip))
          std::copy_n(values.begin() + run.whole, run.count, wanted.begin() + run.local);
        for (int64_t source = 0; source < mesh.chips(); ++source) {
          const Box piece = box_of(whole, from, mesh, source);
          std::vector<int32_t> bytes(static_cast<size_t>(piece.elements()));
          copy_overlap({all, whole, std::as_bytes(std::span(values))},
                       {piece, piece.shape, std::as_writable_bytes(std::span(bytes))}, sizeof(int32_t));
          copy_overlap({piece, piece.shape, std::as_bytes(std::span(bytes))},
                       {box, stored, std::as_writable_bytes(std::span(got))}, sizeof(int32_t));
        }
        EXPECT_EQ(got, wanted) << to_string(from, mesh) << " to " << to_string(to, mesh) << " chip " << chip;
      }
}

}  // namespace
}  // namespace megacpp::checkpoint
