// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/mesh.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

const Mesh kMesh({{"data", 2}, {"context", 3}, {"model", 2}});

TEST(MeshTest, ChipsCountRowMajor) {
  EXPECT_EQ(kMesh.chips(), 12);
  EXPECT_EQ(kMesh.coordinate(7, kMesh.axis("data")), 1);
  EXPECT_EQ(kMesh.coordinate(7, kMesh.axis("context")), 0);
  EXPECT_EQ(kMesh.coordinate(7, kMesh.axis("model")), 1);
}

TEST(MeshTest, AGroupHoldsTheChipsThatDifferAlongItsAxes) {
  const Axes data_model = {kMesh.axis("data"), kMesh.axis("model")};
  EXPECT_EQ(kMesh.group(7, data_model), (std::vector<int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(kMesh.index_in_group(7, data_model), 3);
  const Axes model_data = {kMesh.axis("model"), kMesh.axis("data")};
  EXPECT_EQ(kMesh.group(7, model_data), (std::vector<int64_t>{0, 6, 1, 7}));
  EXPECT_EQ(kMesh.index_in_group(1, model_data), 2);
  EXPECT_EQ(kMesh.group(5, {}), (std::vector<int64_t>{5}));
}

TEST(MeshTest, ADegreeMayStandAsSeveralAxes) {
  const Mesh mesh({{"data", 2}, {"model.0", 3}, {"model.1", 2}});
  EXPECT_EQ(axes_named(mesh, "model"), (Axes{mesh.axis("model.0"), mesh.axis("model.1")}));
  EXPECT_EQ(axes_named(mesh, "data"), Axes{mesh.axis("data")});
  EXPECT_EQ(axes_named(mesh, "expert"), Axes{});
  EXPECT_EQ(mesh.size(axes_named(mesh, "expert")), 1);
}

TEST(MeshTest, AnAxisTwiceOrUnknownIsADefect) {
  EXPECT_THROW(Mesh({{"data", 2}, {"data", 2}}), base::Error);
  EXPECT_THROW(kMesh.axis("stage"), base::Error);
}

TEST(ShardingTest, PrintsAndParsesBack) {
  for (const std::string text : {"", "-", "data,-", "data+model,context,-", "-,model ~ data", "~ data+context"}) {
    EXPECT_EQ(to_string(parse_sharding(text, kMesh), kMesh), text);
  }
}

TEST(ShardingTest, UnevenSizesAreRoundedUpAxisByAxis) {
  const Axes context = {kMesh.axis("context")}, both = {kMesh.axis("context"), kMesh.axis("model")};
  EXPECT_EQ(local_size(7, context, kMesh), 3);
  EXPECT_EQ(local_size(7, both, kMesh), 2);
  EXPECT_TRUE(divides(6, both, kMesh));
  EXPECT_FALSE(divides(9, both, kMesh));
  EXPECT_EQ(local_shape({7, 4}, parse_sharding("context,data", kMesh), kMesh), (Shape{3, 2}));
}

TEST(ShardingTest, RangesOfAllChipsCoverTheDimensionOnce) {
  const Axes both = {kMesh.axis("context"), kMesh.axis("model")};
  for (int64_t size = 0; size <= 14; ++size) {
    int64_t next = 0;
    for (const int64_t chip : kMesh.group(0, both)) {
      const LocalRange range = local_range(size, both, kMesh, chip);
      EXPECT_LE(range.count, local_size(size, both, kMesh));
      if (range.count > 0) {
        EXPECT_EQ(range.first, next) << "size " << size << " chip " << chip;
      }
      next += range.count;
    }
    EXPECT_EQ(next, size);
  }
}

TEST(ShardingTest, RunsOfAllChipsCoverTheTensorOnce) {
  const Shape shape = {3, 4, 5};
  for (const std::string text : {"-,-,-", "data,-,-", "-,context,-", "-,-,context+model", "data,context,model"}) {
    const Sharding sharding = parse_sharding(text, kMesh);
    std::vector<int> seen(60, 0);
    for (int64_t chip = 0; chip < kMesh.chips(); ++chip) {
      // Copies along axes that do not split the tensor hold the same; count the first only.
      bool is_first = true;
      for (AxisId axis = 0; axis < 3; ++axis)
        is_first = is_first && (sharding.splits(axis) || kMesh.coordinate(chip, axis) == 0);
      if (!is_first) continue;
      int64_t last = -1;
      for (const LocalRun& run : local_runs(shape, sharding, kMesh, chip)) {
        EXPECT_GT(run.local, last) << text;
        last = run.local + run.count - 1;
        for (int64_t i = 0; i < run.count; ++i) ++seen[static_cast<size_t>(run.whole + i)];
      }
      EXPECT_LT(last, num_elements(local_shape(shape, sharding, kMesh)));
    }
    EXPECT_EQ(seen, std::vector<int>(60, 1)) << text;
  }
}

}  // namespace
}  // namespace megacpp::ir
