// SPDX-License-Identifier: Apache-2.0
// Commands that merge LoRA adapters into a model: of the run itself, or of another one.
#include <gtest/gtest.h>

#include <filesystem>

#include "megacpp/core/base/file.h"
#include "megacpp/run/checkpoint/hf_folder.h"
#include "megacpp/run/checkpoint/writer.h"
#include "tests/support/command_line.h"
#include "tests/support/model_commands.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::json_of;
using testing_support::run_command;

class AdapterCommandsTest : public testing::Test {
 protected:
  void SetUp() override { base::write_file_atomically(folder_ / "hybrid.yaml", testing_support::kExportedRecipe); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  const testing_support::TemporaryFolder folder_;
};

checkpoint::PieceBytes piece_of(const std::string& name, const checkpoint::FloatTensor& tensor) {
  return {.tensor = name,
          .whole = {ir::DType::f32, tensor.shape},
          .box = {ir::Shape(tensor.shape.size(), 0), tensor.shape},
          .bytes = std::as_bytes(std::span(tensor.data))};
}

// A run with adapters beside one matrix; its base has the weights of the recipe.
TEST_F(AdapterCommandsTest, AdaptersAreMergedWhereverTheyComeFrom) {
  json_of(run_command({"export", at("hybrid.yaml"), at("base"), "--json"}));
  checkpoint::TensorMap tensors = checkpoint::import_hf_folder(at("base")).tensors;
  tensors["block02.A.wq.lora_A"] = {{16, 2}, std::vector<float>(32, 0.5f)};
  tensors["block02.A.wq.lora_B"] = {{2, 16}, std::vector<float>(32, 0.25f)};
  std::vector<checkpoint::PieceBytes> pieces;
  for (const auto& [name, tensor] : tensors) pieces.push_back(piece_of(name, tensor));
  std::filesystem::create_directories(at("run/checkpoints"));
  base::write_file_atomically(folder_ / "run/recipe.yaml", std::string(testing_support::kExportedRecipe) +
                                                               "lora: {rank: 2, alpha: 4, targets: [block02.A.wq]}\n");
  const checkpoint::Store store(at("run/checkpoints"));
  checkpoint::Manifest header;
  header.position.step = 3;
  header.model = {{"lora.alpha", "4"}};
  checkpoint::write_checkpoint(store, header, pieces);
  const auto exported = [&](const std::string& to, std::vector<std::string> words) {
    words.insert(words.begin() + 1, at(to));
    words.insert(words.begin(), "export");
    words.push_back("--json");
    json_of(run_command(words));
    return base::read_file(at(to + "/model.safetensors"));
  };
  const std::string merged = exported("merged", {at("run")});
  EXPECT_NE(merged, base::read_file(at("base/model.safetensors")));
  EXPECT_EQ(exported("on_recipe", {at("hybrid.yaml"), "--adapters", at("run")}), merged);
  EXPECT_EQ(exported("on_folder", {at("base"), "--adapters", store.path_of(3).string()}), merged);
  json_of(run_command(
      {"checkpoint", "convert", store.path_of(3).string(), "--to", at("alone"), "--adapters-only", "--json"}));
  EXPECT_EQ(exported("on_alone", {at("base"), "--adapters", at("alone")}), merged);
  const CommandResult narrow =
      run_command({"export", at("hybrid.yaml"), at("none"), "--adapters", at("alone"), "--set", "model.hidden=32"});
  EXPECT_NE(narrow.err.find("E1205"), std::string::npos) << narrow.err;
}

TEST_F(AdapterCommandsTest, AdaptersThatAreNotThereAreRefused) {
  EXPECT_NE(run_command({"export", at("hybrid.yaml"), at("to"), "--adapters", at("nowhere")}).err.find("E1206"),
            std::string::npos);
  const CommandResult both =
      run_command({"checkpoint", "convert", at("run"), "--to", at("to"), "--adapters-only", "--merge"});
  EXPECT_EQ(both.status, 2) << both.err;
}

}  // namespace
}  // namespace megacpp::cli
