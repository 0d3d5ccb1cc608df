// SPDX-License-Identifier: Apache-2.0
// Whole checkpoints: written, read in other rectangles, damaged, converted, averaged, kept and deleted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/checkpoint/name_map.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/checkpoint/transform.h"
#include "megacpp/run/checkpoint/writer.h"
#include "tests/support/errors.h"
#include "tests/support/file_calls.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::checkpoint {
namespace {

using base::Code;
using testing_support::TemporaryFolder;

/// A matrix in four pieces and a scalar.
class SavedMatrix {
 public:
  explicit SavedMatrix(float first = 0) {
    const ir::TensorType matrix{ir::DType::f32, {4, 6}}, scalar{ir::DType::f32, {}};
    std::iota(values_.begin(), values_.end(), first);
    for (int64_t shard = 0; shard < 4; ++shard) {
      Box box{{shard / 2 * 2, shard % 2 * 3}, {2, 3}};
      float* const to = parts_.data() + 6 * shard;
      const Box all{{0, 0}, {4, 6}};
      copy_overlap({all, all.shape, std::as_bytes(std::span(values_))},
                   {box, box.shape, std::as_writable_bytes(std::span(to, 6))}, sizeof(float));
      pieces_.push_back({"w", matrix, true, shard, box, std::as_bytes(std::span(to, 6))});
    }
    pieces_.push_back({"w.m", scalar, false, 1, {{}, {}}, std::as_bytes(std::span(values_.data(), 1))});
  }

  Manifest header(int64_t step) const {
    return {.position = {.step = step, .samples_consumed = 8 * step, .seed = 7},
            .optimizer = "adamw",
            .model = {{"model.hidden", "6"}},
            .code_version = "test",
            .files = {},
            .tensors = {}};
  }
  Manifest save(const Store& store, int64_t step) const { return write_checkpoint(store, header(step), pieces_); }
  Manifest save_in(const std::filesystem::path& folder, int64_t step) const {
    return write_checkpoint(folder, header(step), pieces_);
  }
  const std::vector<float>& values() const { return values_; }
  /// As a process that has these shards writes them.
  std::string save_part(const Store& store, int64_t step, const std::vector<int64_t>& shards) const {
    std::vector<PieceBytes> own;
    for (const PieceBytes& piece : pieces_)
      if (std::ranges::count(shards, piece.shard) > 0) own.push_back(piece);
    return write_part(store, step, own);
  }

 private:
  std::vector<float> values_ = std::vector<float>(24), parts_ = std::vector<float>(24);
  std::vector<PieceBytes> pieces_;
};

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Code code_of(const std::function<void()>& action, std::string* text = nullptr) {
  try {
    action();
  } catch (const base::Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was refused";
  return Code::E9001;
}

TEST(CheckpointTest, TensorsComeBackWholeAndInOtherRectangles) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  const Manifest written = saved.save(store, 5);
  const Reader reader(*store.latest());
  EXPECT_EQ(reader.manifest(), written);
  EXPECT_EQ(reader.manifest().files.size(), 4u);
  EXPECT_EQ(reader.manifest().position.samples_consumed, 40);
  EXPECT_EQ(floats_of(reader.read_whole("w", ir::DType::f32)), saved.values());
  EXPECT_EQ(reader.bytes_checked(), 24 * 4);
  EXPECT_EQ(reader.bytes_copied(), 24 * 4);
  // One row needs two pieces, and reads no other.
  const Reader other(*store.latest());
  const Box row{{3, 0}, {1, 6}};
  std::vector<float> values(6);
  const BoxBytes<std::byte> wanted{row, row.shape, std::as_writable_bytes(std::span(values))};
  other.read("w", ir::DType::f32, std::span(&wanted, 1));
  EXPECT_EQ(values, std::vector<float>(saved.values().begin() + 18, saved.values().end()));
  EXPECT_EQ(other.bytes_checked(), 12 * 4);
  EXPECT_EQ(other.bytes_copied(), 6 * 4);
}

TEST(CheckpointTest, TheSameStateGivesTheSameBytes) {
  const TemporaryFolder folder;
  const SavedMatrix saved;
  saved.save(Store(folder / "a"), 5);
  saved.save(Store(folder / "b"), 5);
  for (const char* file : {"manifest.json", "shard-00000.safetensors", "shard-00003.safetensors"})
    EXPECT_EQ(base::read_file(folder / "a" / "step-00000005" / file),
              base::read_file(folder / "b" / "step-00000005" / file));
}

TEST(CheckpointTest, PartsOfSeveralProcessesAreTheCheckpointOfOne) {
  const TemporaryFolder folder;
  const SavedMatrix saved;
  saved.save(Store(folder / "one"), 5);
  const Store store(folder / "several");
  store.begin(5);
  const std::vector<std::string> parts = {saved.save_part(store, 5, {2, 0}), saved.save_part(store, 5, {}),
                                          saved.save_part(store, 5, {1, 3})};
  EXPECT_EQ(parts[1], "") << "a process whose chips save nothing";
  EXPECT_TRUE(store.steps().empty()) << "not complete before it is committed";
  const Manifest manifest = commit_parts(store, saved.header(5), parts);
  EXPECT_EQ(Reader(*store.latest()).manifest(), manifest);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "one" / "step-00000005")) {
    EXPECT_EQ(base::read_file(store.path_of(5) / entry.path().filename()), base::read_file(entry.path()));
    ++files;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(store.path_of(5)), {}),
            static_cast<std::ptrdiff_t>(files));
}

TEST(CheckpointTest, PartsThatAreNotAllThereAreNoCheckpoint) {
  const TemporaryFolder folder;
  const SavedMatrix saved;
  const Store store(folder / "checkpoints");
  std::string text;
  store.begin(5);
  const std::vector<std::string> parts = {saved.save_part(store, 5, {0, 1}), saved.save_part(store, 5, {2, 3})};
  EXPECT_EQ(code_of([&] { commit_parts(store, saved.header(5), std::span(parts).first(1)); }, &text), Code::E1204);
  EXPECT_NE(text.find("leave gaps"), std::string::npos) << text;
  // As on a host that has a disk of its own under that name.
  std::filesystem::remove(store.join(5) / "shard-00003.safetensors");
  EXPECT_EQ(code_of([&] { commit_parts(store, saved.header(5), parts); }, &text), Code::E3001);
  EXPECT_NE(text.find("shard-00003.safetensors"), std::string::npos) << text;
  EXPECT_NE(text.find("a run directory that all processes share"), std::string::npos) << text;
  std::filesystem::remove(store.join(5) / parts[0]);
  EXPECT_EQ(code_of([&] { commit_parts(store, saved.header(5), parts); }, &text), Code::E3001);
  EXPECT_NE(text.find(parts[0]), std::string::npos) << text;
  EXPECT_TRUE(store.steps().empty());
}

// Every bit of every file, one in a few, turned over: named and refused, never handed out.
TEST(CheckpointTest, DamagedFilesAreNamedAndRefused) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  saved.save(store, 5);
  for (const auto& entry : std::filesystem::directory_iterator(*store.latest())) {
    const std::string sound = base::read_file(entry.path());
    for (size_t at = 0; at < sound.size(); at += 7) {
      std::string flipped = sound;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      std::ofstream(entry.path(), std::ios::binary) << flipped;
      EXPECT_FALSE(verify(*store.latest()).empty()) << entry.path() << " byte " << at;
    }
    for (const size_t size : {size_t{0}, size_t{5}, sound.size() / 2, sound.size() - 2}) {
      std::ofstream(entry.path(), std::ios::binary) << sound.substr(0, size);
      std::string text;
      EXPECT_EQ(code_of([&] { Reader reader(*store.latest()); }, &text), Code::E1204) << entry.path() << " " << size;
      EXPECT_NE(text.find(entry.path().filename().string()), std::string::npos) << text;
    }
    std::ofstream(entry.path(), std::ios::binary) << sound;
  }
  EXPECT_TRUE(verify(*store.latest()).empty());
  std::filesystem::remove(*store.latest() / "shard-00002.safetensors");
  EXPECT_EQ(code_of([&] { Reader reader(*store.latest()); }), Code::E1204);
}

// Zeros, as bytes that are gone are read, have the checksum of zeros.
TEST(CheckpointTest, FilesThatAreShortenedWhileTheyAreReadAreNamedAndRefused) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  constexpr int64_t kElements = 100'000;
  const std::vector<float> zeros(kElements, 0.0f);
  const Box all{{0}, {kElements}};
  const std::vector<PieceBytes> pieces = {
      {"w", {ir::DType::f32, {kElements}}, true, 0, all, std::as_bytes(std::span(zeros))}};
  write_checkpoint(store, SavedMatrix().header(5), pieces);
  const Reader reader(store.path_of(5));
  EXPECT_EQ(floats_of(reader.read_whole("w", ir::DType::f32)), zeros);
  const std::filesystem::path shard = store.path_of(5) / "shard-00000.safetensors";
  std::filesystem::resize_file(shard, 8000);
  std::string text;
  EXPECT_EQ(code_of([&] { reader.read_whole("w", ir::DType::f32); }, &text), Code::E1204);
  EXPECT_NE(text.find(shard.string()), std::string::npos) << text;
  EXPECT_EQ(code_of([&] { reader.check("w", reader.manifest().tensors.at("w").pieces.front()); }), Code::E1204);
}

TEST(CheckpointTest, ATensorFileThatIsShortenedWhileItIsReadIsNamedAndRefused) {
  const TemporaryFolder folder;
  const std::vector<float> values(100'000, 1.0f);
  const StoredTensor tensor{
      .name = "w", .type = ir::DType::f32, .shape = {100'000}, .bytes = std::as_bytes(std::span(values))};
  write_safetensors(folder / "a", std::span(&tensor, 1), {});
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(read_tensors(file).at("w").data, values);
  std::filesystem::resize_file(folder / "a", 8000);
  std::string text;
  EXPECT_EQ(code_of([&] { read_tensors(file); }, &text), Code::E1008);
  EXPECT_NE(text.find((folder / "a").string()), std::string::npos) << text;
}

TEST(CheckpointTest, ManifestsThatDoNotCoverTheirTensorsAreRefused) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const Manifest sound = SavedMatrix().save(store, 5);
  EXPECT_EQ(parse_manifest(to_text(sound), "it"), sound);
  const auto refused = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = sound;
    change(manifest);
    EXPECT_EQ(code_of([&] { parse_manifest(to_text(manifest), "it"); }), Code::E1204);
  };
  refused([](Manifest& m) { m.tensors["w"].pieces.pop_back(); });
  refused([](Manifest& m) { m.tensors["w"].pieces.push_back(m.tensors["w"].pieces.back()); });
  refused([](Manifest& m) { m.tensors["w"].pieces[1].box.offset[1] = 2; });
  refused([](Manifest& m) { m.tensors["w"].pieces[3].box.shape[1] = 4; });
  refused([](Manifest& m) { m.tensors["w"].pieces[3].box.shape.pop_back(); });
  refused([](Manifest& m) { m.tensors["w"].whole.shape = {INT64_MAX, INT64_MAX}; });
  refused([](Manifest& m) { m.tensors["w"].pieces[0].file = "elsewhere"; });
  refused([](Manifest& m) { m.files["../up"] = 3; });
  refused([](Manifest& m) { m.tensors["w"].whole.dtype = ir::DType::pred; });
  refused([](Manifest& m) { m.position.step = -1; });
}

TEST(CheckpointTest, AnotherFormatIsNamedWithTheBuildThatReadsIt) {
  const base::Problem newer = testing_support::problem_of(
      Code::E1204, [] { parse_manifest(R"({"format": "megacpp checkpoint 2", "code_version": "9.1.0"})", "it"); });
  EXPECT_EQ(newer.got, "format 'megacpp checkpoint 2'");
  EXPECT_EQ(newer.next, "use the build that wrote it: 9.1.0");
  const base::Problem foreign =
      testing_support::problem_of(Code::E1204, [] { parse_manifest(R"({"format": "other"})", "it"); });
  EXPECT_EQ(foreign.got, "format 'other'");
  for (const char* text : {"[]", "3", "{}", R"({"format": 2})"})
    testing_support::problem_of(Code::E1204, [&] { parse_manifest(text, "it"); });
}

TEST(StoreTest, OnlyCompleteCheckpointsGoByTheirName) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  EXPECT_FALSE(store.latest());
  store.begin(3);  // as a killed process leaves it
  EXPECT_FALSE(store.latest());
  const SavedMatrix saved;
  saved.save(store, 5);
  EXPECT_EQ(store.latest(), store.path_of(5));
  EXPECT_EQ(std::filesystem::read_symlink(store.folder() / "latest"), "step-00000005");
  store.begin(7);
  std::ofstream(store.folder() / "step-00000007.partial" / "manifest.json") << "{";
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});
  store.remove_partial();
  EXPECT_FALSE(std::filesystem::exists(store.folder() / "step-00000007.partial"));
  saved.save(store, 5);  // again: replaces it
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});
  std::filesystem::remove(store.folder() / "latest");
  EXPECT_EQ(store.latest(), store.path_of(5));
  EXPECT_EQ(code_of([&] { Reader reader(store.folder()); }), Code::E1206);
}

// As a process leaves it that is killed between the two renames of a commit.
// A loss of power at any instant leaves the checkpoint before or the new one, whole.
TEST(StoreTest, WhatACheckpointIsMadeOfIsSyncedBeforeItGetsItsName) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  const SavedMatrix matrix;
  for (const bool replaces : {false, true}) {
    const testing_support::FileCalls calls;
    matrix.save(store, 5);
    EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
    std::vector<std::string> names = {"shard-00000.safetensors", "shard-00001.safetensors", "shard-00002.safetensors",
                                      "shard-00003.safetensors", "manifest.json"};
    if (replaces) names.emplace_back("step-00000005.replaced");
    names.insert(names.end(), {"step-00000005", "latest"});
    EXPECT_EQ(calls.renamed(), names) << "the manifest last, and latest once the checkpoint has its name";
    EXPECT_TRUE(calls.is_name_synced(store.path_of(5)));
    EXPECT_TRUE(calls.is_name_synced(store.folder() / "latest"));
  }
}

TEST(StoreTest, PartsOfSeveralProcessesAreSyncedBeforeTheCheckpointGetsItsName) {
  const TemporaryFolder folder;
  const Store store(folder.path());
  const SavedMatrix matrix;
  const testing_support::FileCalls calls;
  store.begin(5);
  const std::vector<std::string> parts = {matrix.save_part(store, 5, {0, 1}), matrix.save_part(store, 5, {2, 3})};
  commit_parts(store, matrix.header(5), parts);
  EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
  EXPECT_EQ(calls.renamed().size(), 4u + 2u + 1u + 2u) << "shards, parts, the manifest, the checkpoint and latest";
  EXPECT_TRUE(calls.is_name_synced(store.path_of(5)));
}

TEST(CheckpointTest, AFolderOfItsOwnIsSyncedBeforeItGetsItsName) {
  const TemporaryFolder folder;
  const SavedMatrix matrix;
  const testing_support::FileCalls calls;
  matrix.save_in(folder / "alone", 5);
  EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
  EXPECT_EQ(calls.renamed().back(), "alone");
}

TEST(StoreTest, ACheckpointThatWasBeingReplacedGetsItsNameBack) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  saved.save(store, 5);
  store.begin(5);
  std::filesystem::rename(store.path_of(5), store.folder() / "step-00000005.replaced");
  EXPECT_FALSE(store.latest());
  store.recover();
  EXPECT_EQ(store.latest(), store.path_of(5));
  EXPECT_TRUE(verify(store.path_of(5)).empty());
  // Killed later, before the old one was deleted: the new one counts.
  std::filesystem::copy(store.path_of(5), store.folder() / "step-00000005.replaced");
  const SavedMatrix other(100);
  other.save(store, 6);
  std::filesystem::rename(store.path_of(6), store.folder() / "step-00000006.replaced");
  saved.save(store, 6);
  store.remove_partial();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(floats_of(Reader(store.path_of(6)).read_whole("w", ir::DType::f32)), saved.values());
  for (const auto& entry : std::filesystem::directory_iterator(store.folder()))
    EXPECT_FALSE(entry.path().string().ends_with(".replaced")) << entry.path();
}

TEST(StoreTest, ANewestCheckpointWithoutItsManifestIsDamagedAndNotPassedOver) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  EXPECT_FALSE(store.damaged_latest());
  const SavedMatrix saved;
  for (const int64_t step : {2, 4}) saved.save(store, step);
  store.begin(6);  // as a killed process leaves it: never complete
  EXPECT_FALSE(store.damaged_latest());
  std::filesystem::remove(store.path_of(2) / kManifestFile);
  EXPECT_TRUE(store.is_damaged(store.path_of(2)));
  EXPECT_FALSE(store.damaged_latest()) << "the newest is sound";
  std::filesystem::remove(store.path_of(4) / kManifestFile);
  EXPECT_EQ(store.damaged_latest(), store.path_of(4));
  std::filesystem::remove(store.folder() / "latest");
  EXPECT_EQ(store.damaged_latest(), store.path_of(4));
  saved.save(store, 3);
  EXPECT_FALSE(store.damaged_latest()) << "what the link names counts";
}

TEST(StoreTest, ACheckpointMakesNoFolderForARunThatIsGone) {
  const TemporaryFolder folder;
  const Store store(folder / "run" / "checkpoints");
  const SavedMatrix saved;
  EXPECT_EQ(code_of([&] { saved.save(store, 5); }), Code::E3001);
  EXPECT_EQ(code_of([&] { saved.save_part(store, 5, {0}); }), Code::E3001);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(StoreTest, OnlyItsOwnLeftoversAreDeleted) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const std::vector<std::string> ours = {"step-00000003.partial", "step-00000003.old.partial", "latest.123.partial"};
  const std::vector<std::string> theirs = {"notes.partial", "step-x.partial", "latest.partial", "latest.mine.partial",
                                           "step-00000003.mine.partial"};
  for (const std::string& name : ours) std::filesystem::create_directories(store.folder() / name);
  for (const std::string& name : theirs) std::filesystem::create_directories(store.folder() / name);
  store.remove_partial();
  for (const std::string& name : ours) EXPECT_FALSE(std::filesystem::exists(store.folder() / name)) << name;
  for (const std::string& name : theirs) EXPECT_TRUE(std::filesystem::exists(store.folder() / name)) << name;
}

TEST(StoreTest, PruningKeepsTheNewestAndEveryKth) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  for (int64_t step = 1; step <= 6; ++step) saved.save(store, step);
  store.prune(0, 0);
  EXPECT_EQ(store.steps().size(), 6u);
  store.prune(2, 3);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{3, 5, 6}));
  saved.save(store, 4);  // as after a resume from 3: the latest is not the highest
  store.prune(1, 0);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(store.latest(), store.path_of(4));
}

TEST(StoreTest, AWriteThatFailsLeavesTheCheckpointsBefore) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  saved.save(store, 5);
  std::ofstream(store.folder() / "step-00000006") << "a file in the way";
  std::filesystem::create_directories(store.folder() / "step-00000006.partial" / "manifest.json" / "in-the-way");
  EXPECT_NO_THROW(saved.save(store, 6));  // what is left of earlier attempts does not stop it
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{5, 6}));
}

TEST(TransformTest, ShardsAndTypesChangeAndValuesDoNot) {
  const TemporaryFolder folder;
  const Store store(folder / "checkpoints");
  const SavedMatrix saved;
  saved.save(store, 5);
  const Reader reader(*store.latest());
  convert(reader, folder / "three", {.shards = 3});
  const Reader three(folder / "three");
  EXPECT_EQ(three.manifest().files.size(), 3u);
  EXPECT_EQ(three.manifest().position, reader.manifest().position);
  EXPECT_EQ(floats_of(three.read_whole("w", ir::DType::f32)), saved.values());
  convert(reader, folder / "half", {.shards = 1, .type = ir::DType::bf16, .weights_only = true});
  const Reader half(folder / "half");
  EXPECT_EQ(half.manifest().tensors.size(), 1u);
  EXPECT_EQ(half.manifest().tensors.at("w").whole.dtype, ir::DType::bf16);
  EXPECT_EQ(floats_of(half.read_whole("w", ir::DType::f32)), saved.values());  // small integers are exact
  EXPECT_EQ(code_of([&] { convert(reader, folder / "half", {}); }), Code::E3001);
  // A slash at the end changes nothing, and a folder of the user's is neither written into nor deleted.
  std::filesystem::create_directories(folder / "slash.partial" / "mine");
  convert(reader, folder / "slash/", {});
  EXPECT_TRUE(verify(folder / "slash").empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "slash"), {}), 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "slash.partial" / "mine"));
}

TEST(TransformTest, AverageIsTheMeanOfTheWeights) {
  const TemporaryFolder folder;
  SavedMatrix(0).save(Store(folder / "a"), 5);
  SavedMatrix(10).save(Store(folder / "b"), 6);
  std::vector<Reader> readers;
  readers.emplace_back(folder / "a" / "step-00000005");
  readers.emplace_back(folder / "b" / "step-00000006");
  average(readers, folder / "mean");
  const Reader mean(folder / "mean");
  EXPECT_EQ(floats_of(mean.read_whole("w", ir::DType::f32)), SavedMatrix(5).values());
  EXPECT_EQ(mean.manifest().position.step, 6);
  EXPECT_EQ(mean.manifest().tensors.size(), 1u);
}

}  // namespace
}  // namespace megacpp::checkpoint
