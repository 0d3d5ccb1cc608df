// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"

namespace megacpp::checkpoint {
namespace {

constexpr const char* kMixtral = R"({"architectures": ["MixtralForCausalLM"], "vocab_size": 5, "hidden_size": 4,
  "intermediate_size": 3, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
  "num_local_experts": 2})";

class HfFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(::testing::TempDir()) / ("megacpp_hf_" + name);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    base::write_file_atomically(folder_ / "config.json", kMixtral);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const TensorMap& tensors) const {
    std::vector<StoredTensor> stored;
    for (const auto& [name, tensor] : tensors) {
      stored.push_back({.name = name,
                        .type = ir::DType::f32,
                        .shape = tensor.shape,
                        .bytes = std::as_bytes(std::span(tensor.data))});
    }
    write_safetensors(folder_ / file, stored, {});
  }

  std::filesystem::path folder_;
};

/// Tensors of theirs in the given spelling, every element different.
TensorMap numbered(HfNaming naming) {
  const NameMap map =
      import_hf_config("MixtralForCausalLM", base::parse_json(kMixtral, base::Code::E1202, "test"), naming).names;
  TensorMap ours;
  float next = 0;
  for (const NamePiece& piece : map.pieces) {
    const auto [place, is_new] = ours.try_emplace(piece.ours);
    if (!is_new) continue;
    place->second.shape = piece.our_shape;
    for (int64_t i = 0; i < ir::num_elements(piece.our_shape); ++i) place->second.data.push_back(next++);
  }
  return export_tensors(map, ours);
}

TEST_F(HfFolderTest, EveryFileHasADigestOfAllItsBytes) {
  TensorMap tensors = numbered(HfNaming::in_memory);
  write("model.safetensors", tensors);
  const std::map<std::string, uint64_t> before = digest_hf_folder(folder_);
  EXPECT_EQ(before.size(), 2U);
  tensors.begin()->second.data.back() += 1;
  write("model.safetensors", tensors);
  const std::map<std::string, uint64_t> after = digest_hf_folder(folder_);
  EXPECT_NE(after.at("model.safetensors"), before.at("model.safetensors"));
  EXPECT_EQ(after.at("config.json"), before.at("config.json"));
  base::write_file_atomically(folder_ / "model.safetensors.index.json",
                              R"({"weight_map": {"a": "part-1.safetensors"}})");
  write("part-1.safetensors", tensors);
  const std::map<std::string, uint64_t> in_parts = digest_hf_folder(folder_);
  EXPECT_EQ(in_parts.size(), 3U);
  EXPECT_TRUE(in_parts.contains("part-1.safetensors")) << "files that the index names, and no others";
}

TEST_F(HfFolderTest, BothSpellingsOfMixtralGiveTheSameModel) {
  write("model.safetensors", numbered(HfNaming::in_memory));
  const ImportedModel fused = import_hf_folder(folder_);
  write("model.safetensors", numbered(HfNaming::on_disk));
  const ImportedModel single = import_hf_folder(folder_);
  ASSERT_EQ(fused.tensors.size(), single.tensors.size());
  for (const auto& [name, tensor] : fused.tensors) EXPECT_EQ(single.tensors.at(name).data, tensor.data) << name;
  EXPECT_EQ(fused.description.model, single.description.model);
}

TEST_F(HfFolderTest, SeveralFilesAreJoinedThroughTheIndex) {
  const TensorMap theirs = numbered(HfNaming::on_disk);
  TensorMap first(theirs.begin(), std::next(theirs.begin(), 3));
  TensorMap second(std::next(theirs.begin(), 3), theirs.end());
  write("model-1.safetensors", first);
  write("model-2.safetensors", second);
  std::string index = R"({"weight_map": {)";
  for (const auto& [name, tensor] : theirs) {
    index += (index.back() == '{' ? "\"" : ", \"") + name + "\": \"model-" + (first.contains(name) ? "1" : "2") +
             ".safetensors\"";
  }
  base::write_file_atomically(folder_ / "model.safetensors.index.json", index + "}}");
  EXPECT_EQ(import_hf_folder(folder_).tensors.size(), 13u);
}

TEST_F(HfFolderTest, AnIndexThatLeavesTheFolderIsRefused) {
  base::write_file_atomically(folder_ / "model.safetensors.index.json",
                              R"({"weight_map": {"a": "../secret.safetensors"}})");
  EXPECT_THROW(import_hf_folder(folder_), base::Error);
}

TEST_F(HfFolderTest, AFolderIsDescribedWithoutItsWeights) {
  write("model.safetensors", numbered(HfNaming::on_disk));
  const HfModel described = describe_hf_folder(folder_);
  EXPECT_EQ(described.naming, HfNaming::on_disk);
  EXPECT_EQ(described.model, import_hf_folder(folder_).description.model);
}

// Before anything is made for 40,000 layers.
TEST_F(HfFolderTest, LayersWithoutTensorsAreRefusedByTheHeaders) {
  write("model.safetensors", numbered(HfNaming::on_disk));
  std::string config = kMixtral;
  const std::string layers = R"("num_hidden_layers": 1)";
  config.replace(config.find(layers), layers.size(), R"("num_hidden_layers": 40000)");
  base::write_file_atomically(folder_ / "config.json", config);
  try {
    describe_hf_folder(folder_);
    ADD_FAILURE() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1203);
    EXPECT_NE(error.problem().where.find("tensor model.layers."), std::string::npos) << error.what();
  }
}

TEST_F(HfFolderTest, MissingFilesAreEnvironmentErrors) {
  try {
    import_hf_folder(folder_);
    ADD_FAILURE() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1008);
  }
}

}  // namespace
}  // namespace megacpp::checkpoint
