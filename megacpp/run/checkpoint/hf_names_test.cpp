// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_names.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/run/checkpoint/hf_classes.h"

namespace megacpp::checkpoint {
namespace {

recipe::Model hybrid() {
  recipe::Model model{.name = "hybrid", .pattern = "MEA", .depth = 3, .hidden = 8, .vocab = 5};
  model.config<blocks::Attention>() = {.heads = 2, .kv_heads = 1, .head_dim = 4};
  model.config<blocks::Mamba>() = {.heads = 4, .head_dim = 4, .state = 2, .groups = 2, .conv_bias = false};
  model.config<blocks::FeedForward>() = {.activation = blocks::ActivationFunction::relu2, .intermediate = 6};
  return model;
}

NameMap names_of(const recipe::Model& model, HfNaming naming) {
  for (const HfClass& cls : hf_classes())
    if (cls.name == "NemotronHForCausalLM") return cls.names(model, naming);
  throw std::logic_error("no such class");
}

TEST(HfNamesTest, SpellingIsKnownFromTheNames) {
  EXPECT_EQ(naming_of("model.layers.0.block_sparse_moe.gate.weight"), HfNaming::on_disk);
  EXPECT_EQ(naming_of("backbone.layers.0.norm.weight"), HfNaming::on_disk);
  EXPECT_EQ(naming_of("model.layers.0.mlp.experts.11.up_proj.weight"), HfNaming::on_disk);
  EXPECT_EQ(naming_of("model.layers.0.block_sparse_moe.input_linear.weight"), HfNaming::on_disk);
  EXPECT_EQ(naming_of("model.layers.0.block_sparse_moe.router.weight"), HfNaming::in_memory);
  EXPECT_EQ(naming_of("model.layers.0.mlp.experts.gate_up_proj"), HfNaming::in_memory);
  EXPECT_EQ(naming_of("model.layers.0.mlp.gate.weight"), HfNaming::in_memory);
}

TEST(HfNamesTest, NemotronHOnDiskDiffersInTheRootOnly) {
  const NameMap memory = names_of(hybrid(), HfNaming::in_memory);
  const NameMap disk = names_of(hybrid(), HfNaming::on_disk);
  ASSERT_EQ(memory.pieces.size(), disk.pieces.size());
  EXPECT_EQ(memory.pieces.front().theirs, "model.embeddings.weight");
  EXPECT_EQ(disk.pieces.front().theirs, "backbone.embeddings.weight");
}

TEST(HfNamesTest, OptionalParametersFollowTheModel) {
  std::set<std::string> ours;
  for (const NamePiece& piece : names_of(hybrid(), HfNaming::in_memory).pieces) ours.insert(piece.ours);
  EXPECT_FALSE(ours.contains("block00.M.conv.x.bias"));
  EXPECT_FALSE(ours.contains("block01.E.w_gate"));
  EXPECT_TRUE(ours.contains("block01.E.w_up"));
  EXPECT_TRUE(ours.contains("block02.A.wq"));
}

TEST(HfNamesTest, PartsOfFusedTensorsCoverThemOnce) {
  recipe::Model model = hybrid();
  model.config<blocks::Mamba>().conv_bias = true;
  const NameMap names = names_of(model, HfNaming::in_memory);
  TensorMap theirs;
  for (const NamePiece& piece : names.pieces) {
    FloatTensor tensor = {piece.their_shape,
                          std::vector<float>(static_cast<size_t>(ir::num_elements(piece.their_shape)))};
    std::iota(tensor.data.begin(), tensor.data.end(), 1.0F);
    theirs[piece.theirs] = std::move(tensor);
  }
  const TensorMap ours = import_tensors(names, theirs), back = export_tensors(names, ours);
  for (const auto& [name, tensor] : theirs) EXPECT_EQ(back.at(name).data, tensor.data) << name;
  // Rows of 8: z 16, x 16, B 4, C 4, dt 4.
  EXPECT_EQ(ours.at("block00.M.in_proj.C").shape, (ir::Shape{8, 4}));
  EXPECT_EQ(ours.at("block00.M.in_proj.C").data[0], 36 * 8 + 1);
  EXPECT_EQ(ours.at("block00.M.conv.B.weight").data[0], 16 * 4 + 1);
  EXPECT_EQ(ours.at("block00.M.conv.C.bias").data[0], 20 + 1);
}

TEST(HfNamesTest, LettersOfAModelsOwnNameTheirBlocks) {
  recipe::Model model = hybrid();
  model.pattern = "MDA";
  model.letters['D'] = {.family = "E", .settings = {{"feed_forward.intermediate", "10"}}};
  for (const NamePiece& piece : names_of(model, HfNaming::in_memory).pieces) {
    if (piece.ours != "block01.D.w_up") continue;
    EXPECT_EQ(piece.our_shape, (ir::Shape{8, 10}));
    EXPECT_EQ(piece.theirs, "model.layers.1.mixer.up_proj.weight");
    return;
  }
  FAIL() << "no block01.D.w_up";
}

TEST(HfNamesTest, BlocksBeyondAHundredKeepTheirNumbers) {
  recipe::Model model = hybrid();
  model.depth = 102;
  EXPECT_EQ(names_of(model, HfNaming::in_memory).pieces.back().ours, "block101.A.wo");
}

}  // namespace
}  // namespace megacpp::checkpoint
