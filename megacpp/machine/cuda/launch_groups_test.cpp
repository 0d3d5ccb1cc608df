// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/launch_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace megacpp::runtime::cuda {
namespace {

using Groups = std::vector<std::vector<size_t>>;

LaunchFootprint launch_of(int64_t kernel, std::vector<ByteRange> reads, std::vector<ByteRange> writes) {
  return {.kernel = kernel, .max_group = 8, .reads = std::move(reads), .writes = std::move(writes)};
}

TEST(LaunchGroupsTest, LaunchesOfAKernelThatOnlyShareWhatTheyReadAreOne) {
  const ByteRange scale{0, 4};
  const std::vector<LaunchFootprint> launches = {launch_of(0, {scale, {256, 512}}, {{256, 512}}),
                                                 launch_of(0, {scale, {512, 768}}, {{512, 768}}),
                                                 launch_of(0, {scale, {1024, 1028}}, {{1024, 1028}})};
  EXPECT_EQ(group_launches(launches), (Groups{{0, 1, 2}}));
}

TEST(LaunchGroupsTest, OtherKernelsAreNotJoinedAndAreNotInTheWay) {
  const std::vector<LaunchFootprint> launches = {launch_of(0, {}, {{0, 4}}),    launch_of(1, {}, {{4, 8}}),
                                                 launch_of(-1, {}, {{8, 12}}),  launch_of(0, {}, {{12, 16}}),
                                                 launch_of(-1, {}, {{16, 20}}), launch_of(1, {}, {{20, 24}})};
  EXPECT_EQ(group_launches(launches), (Groups{{0, 3}, {1, 5}, {2}, {4}}));
}

TEST(LaunchGroupsTest, ALaunchDoesNotJoinWhatItDependsOn) {
  const LaunchFootprint first = launch_of(0, {{0, 4}}, {{16, 32}});
  EXPECT_EQ(group_launches(std::vector{first, launch_of(0, {{28, 29}}, {{64, 68}})}), (Groups{{0}, {1}}))
      << "reads what the first writes";
  EXPECT_EQ(group_launches(std::vector{first, launch_of(0, {{64, 68}}, {{0, 1}})}), (Groups{{0}, {1}}))
      << "overwrites what the first reads";
  EXPECT_EQ(group_launches(std::vector{first, launch_of(0, {}, {{31, 40}})}), (Groups{{0}, {1}}))
      << "overwrites what the first writes";
  EXPECT_EQ(group_launches(std::vector{first, launch_of(0, {{32, 48}}, {{4, 16}})}), (Groups{{0, 1}})) << "next to it";
}

TEST(LaunchGroupsTest, ALaunchDoesNotMoveBeforeOneThatItDependsOn) {
  const std::vector<LaunchFootprint> launches = {launch_of(0, {}, {{0, 4}}),
                                                 launch_of(1, {{0, 4}}, {{4, 8}}),   // reads what the first leaves
                                                 launch_of(0, {{4, 8}}, {{8, 12}}),  // and this what the second does
                                                 launch_of(0, {}, {{12, 16}})};      // this neither
  EXPECT_EQ(group_launches(launches), (Groups{{0}, {1}, {2, 3}})) << "the last group of the kernel";
}

TEST(LaunchGroupsTest, AGroupHasAsManyAsATableHolds) {
  std::vector<LaunchFootprint> launches;
  for (uint64_t i = 0; i < 20; ++i) launches.push_back(launch_of(0, {}, {{i, i + 1}}));
  std::vector<size_t> sizes;
  for (const std::vector<size_t>& group : group_launches(launches)) sizes.push_back(group.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{8, 8, 4}));
}

// ---- Random launches against running them one by one

constexpr uint64_t kCells = 24;

ByteRange random_range(std::mt19937& random) {
  const uint64_t begin = random() % (kCells - 2);
  return {begin, begin + 1 + random() % 2};
}

// Every cell that is written gets a number of its own, of all that was read.
void write_all(const LaunchFootprint& launch, size_t number, uint64_t read, std::vector<uint64_t>& cells) {
  for (const ByteRange& range : launch.writes)
    for (uint64_t at = range.begin; at < range.end; ++at) cells[at] = (read + number + 1) * 0x9E3779B97F4A7C15U + at;
}

uint64_t read_all(const LaunchFootprint& launch, const std::vector<uint64_t>& cells) {
  uint64_t read = 0;
  for (const ByteRange& range : launch.reads)
    for (uint64_t at = range.begin; at < range.end; ++at) read = read * 31 + cells[at];
  return read;
}

// Members of a group at once: in either order.
std::vector<uint64_t> run_groups(const std::vector<LaunchFootprint>& launches, const Groups& groups, bool backwards) {
  std::vector<uint64_t> cells(kCells, 7);
  for (std::vector<size_t> group : groups) {
    if (backwards) std::ranges::reverse(group);
    for (const size_t n : group) write_all(launches[n], n, read_all(launches[n], cells), cells);
  }
  return cells;
}

TEST(LaunchGroupsTest, RandomLaunchesLeaveWhatTheyLeaveOneByOne) {
  std::mt19937 random(3);
  size_t joined = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<LaunchFootprint> launches;
    Groups one_by_one;
    for (size_t n = 0; n < 12; ++n) {
      launches.push_back(
          launch_of(static_cast<int64_t>(random() % 4) - 1, {random_range(random)}, {random_range(random)}));
      launches.back().max_group = 3;
      one_by_one.push_back({n});
    }
    const Groups groups = group_launches(launches);
    std::vector<size_t> all;
    for (const std::vector<size_t>& group : groups) {
      EXPECT_LE(group.size(), 3U);
      for (const size_t n : group) {
        EXPECT_TRUE(group.size() == 1 || launches[n].kernel == launches[group[0]].kernel);
        all.push_back(n);
      }
    }
    std::ranges::sort(all);
    for (size_t n = 0; n < all.size(); ++n) ASSERT_EQ(all[n], n);
    joined += launches.size() - groups.size();
    const std::vector<uint64_t> wanted = run_groups(launches, one_by_one, false);
    EXPECT_EQ(run_groups(launches, groups, false), wanted);
    EXPECT_EQ(run_groups(launches, groups, true), wanted);
  }
  EXPECT_GT(joined, 500U);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
