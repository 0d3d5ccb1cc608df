// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/save_together.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/run/checkpoint/reader.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::train {
namespace {

using testing_support::Processes;

/// A vector of two rows, of which each process has one.
class SaveTogetherTest : public testing::Test {
 protected:
  checkpoint::Manifest save(size_t process, const std::filesystem::path& folder, int64_t step) {
    const std::unique_ptr<collectives::World> world = processes_.transport(process).make({.chips = 2});
    const std::vector<float> row(3, static_cast<float>(process));
    const checkpoint::PieceBytes piece{.tensor = "w",
                                       .whole = {ir::DType::f32, {2, 3}},
                                       .shard = static_cast<int64_t>(process),
                                       .box = {{static_cast<int64_t>(process), 0}, {1, 3}},
                                       .bytes = std::as_bytes(std::span(row))};
    checkpoint::Manifest header;
    header.position.step = step;
    return save_together(*world, checkpoint::Store(folder), header, std::span(&piece, 1));
  }

  const testing_support::TemporaryFolder folder_;
  Processes processes_{2};
};

TEST_F(SaveTogetherTest, EveryProcessWritesItsPart) {
  const checkpoint::Store store(folder_ / "checkpoints");
  processes_.run([&](size_t process) {
    const checkpoint::Manifest manifest = save(process, store.folder(), 7);
    EXPECT_EQ(manifest.files.size(), process == 0 ? 2u : 0u);
  });
  const checkpoint::Reader reader(*store.latest());
  EXPECT_EQ(reader.manifest().position.step, 7);
  EXPECT_EQ(reader.manifest().tensors.at("w").pieces.size(), 2u);
  EXPECT_TRUE(checkpoint::verify(*store.latest()).empty());
}

TEST_F(SaveTogetherTest, AProcessThatCannotWriteIsNamedAndNothingIsLeft) {
  const checkpoint::Store store(folder_ / "checkpoints");
  processes_.run([&](size_t process) { save(process, store.folder(), 7); });
  processes_.run([&](size_t process) {
    // Where a host has no such disk.
    const std::filesystem::path own = process == 0 ? store.folder() : std::filesystem::path("/dev/null/checkpoints");
    const base::Problem problem = testing_support::problem_of(base::Code::E3001, [&] { save(process, own, 8); });
    EXPECT_NE(problem.got.find("process 1 on "), std::string::npos) << problem.got;
    EXPECT_NE(problem.got.find("/dev/null/checkpoints"), std::string::npos) << problem.got;
  });
  EXPECT_EQ(store.steps(), std::vector<int64_t>{7});
  EXPECT_FALSE(std::filesystem::exists(store.folder() / "step-00000008.partial"));
}

}  // namespace
}  // namespace megacpp::train
