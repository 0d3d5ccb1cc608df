// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/tiled_layout.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <sstream>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "tests/support/errors.h"

namespace megacpp::hw {
namespace {

using base::Code;
using testing_support::problem_of;
using Numbers = std::vector<int64_t>;

Chip chip_named(const char* name) { return find_chip(name, ChipPlaces{}); }

TEST(TiledLayoutTest, EveryMeasuredArgumentHasTheBytesAndTheLayoutTheCompilerSaid) {
  const Chip v6e = chip_named("v6e");
  const auto file = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/v6e_argument_bytes.jsonl";
  std::istringstream rows(base::read_file(file));
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const base::Json row = base::parse_json(line, Code::E9001, "v6e_argument_bytes.jsonl");
    const TensorLayout layout = argument_layout(v6e, row["dtype"].get<std::string>(), row["shape"].get<Numbers>());
    EXPECT_EQ(row["bytes"], layout.bytes) << line;
    EXPECT_EQ(row["layout"], layout.text);
  }
  EXPECT_EQ(count, 112);
}

// The case of XLA's own error page.
TEST(TiledLayoutTest, AForcedLayoutPadsAsItMust) {
  const Chip v6e = chip_named("v6e");
  const Numbers shape = {16, 1280, 40};
  EXPECT_EQ(argument_bytes(v6e, "bf16", shape), 1'638'400);
  EXPECT_EQ(forced_layout(v6e, "bf16", shape, Numbers{2, 1, 0}).bytes, 5'242'880);
  EXPECT_EQ(forced_layout(v6e, "bf16", shape, Numbers{2, 1, 0}).text, "bf16[16,1280,40]{2,1,0:T(8,128)(2,1)}");
}

// A row of 304 fills its tiles in the order written, with 80 lanes to spare; one of 64 would waste half of them.
TEST(TiledLayoutTest, ValuesLieAsWrittenWhereTheirRowsAreLong) {
  const Chip v6e = chip_named("v6e");
  EXPECT_EQ(argument_bytes(v6e, "bf16", Numbers{640, 304}), 640 * 304 * 2);
  EXPECT_EQ(value_bytes(v6e, "bf16", Numbers{640, 304}), 640 * 384 * 2);
  EXPECT_EQ(value_bytes(v6e, "bf16", Numbers{640, 64}), 640 * 64 * 2);
  EXPECT_EQ(value_bytes(v6e, "f32", Numbers{}), argument_bytes(v6e, "f32", Numbers{}));
}

TEST(TiledLayoutTest, NoOrderPadsLessThanTheOneOfArguments) {
  const Chip v6e = chip_named("v6e");
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Numbers shape(2 + random() % 3), order(shape.size());
    for (int64_t& size : shape) size = 1 + static_cast<int64_t>(random() % 300);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    const char* dtype = std::vector<const char*>{"f32", "bf16", "s8"}[random() % 3];
    int64_t least = INT64_MAX;
    do {
      least = std::min(least, forced_layout(v6e, dtype, shape, order).bytes);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(argument_bytes(v6e, dtype, shape), least);
  }
}

TEST(TiledLayoutTest, TheTileIsTheGenerations) {
  const Numbers rows = {6, 128};
  EXPECT_EQ(argument_bytes(chip_named("v6e"), "bf16", rows), 8 * 128 * 2);
  const Numbers more = {9, 128};
  EXPECT_EQ(forced_layout(chip_named("v6e"), "bf16", more, Numbers{1, 0}).bytes, 16 * 128 * 2);
  const Numbers many = {17, 128};
  EXPECT_EQ(forced_layout(chip_named("v6e"), "bf16", many, Numbers{1, 0}).bytes, 24 * 128 * 2);
  EXPECT_EQ(forced_layout(chip_named("tpu7x"), "bf16", many, Numbers{1, 0}).bytes, 32 * 128 * 2);
}

TEST(TiledLayoutTest, WithoutTilesBytesAreAligned) {
  const Chip h100 = chip_named("h100");
  const TensorLayout layout = argument_layout(h100, "bf16", Numbers{3, 5});
  EXPECT_EQ(layout.bytes, 256);
  EXPECT_EQ(layout.text, "bf16[3,5]{1,0}");
  EXPECT_EQ(argument_bytes(h100, "f32", Numbers{16, 1280, 40}), 16 * 1280 * 40 * 4);
  EXPECT_EQ(argument_bytes(h100, "f32", Numbers{0, 8}), 0);
}

TEST(TiledLayoutTest, EmptyTensorsTakeNothing) {
  EXPECT_EQ(argument_bytes(chip_named("v6e"), "f32", Numbers{0, 8}), 0);
  EXPECT_EQ(argument_bytes(chip_named("v6e"), "f32", Numbers{}), 512);
}

TEST(TiledLayoutTest, MistakesAreNamed) {
  const Chip v6e = chip_named("v6e");
  EXPECT_EQ(problem_of(Code::E1604, [] { element_type("bfl6"); }).next, "did you mean 'bf16'?");
  const Numbers shape = {2, 3};
  for (const Numbers& order : {Numbers{0}, Numbers{0, 0}, Numbers{1, 2}, Numbers{-1, 0}, Numbers{2, 1, 0}})
    EXPECT_EQ(problem_of(Code::E1604, [&] { forced_layout(v6e, "f32", shape, order); }).next, "row-major is 1,0");
  for (const Numbers& large : {Numbers{int64_t{1} << 40, 1 << 20}, Numbers{-1}, Numbers{INT64_MAX}})
    problem_of(Code::E1604, [&] { argument_bytes(v6e, "f32", large); });
}

}  // namespace
}  // namespace megacpp::hw
