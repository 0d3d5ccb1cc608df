// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_export.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "tests/support/errors.h"

namespace megacpp::checkpoint {
namespace {

using testing_support::problem_of;

base::Json parse(const std::string& text) { return base::parse_json(text, base::Code::E1202, "test"); }

struct GoldenModel {
  HfModel described;
  TensorMap ours;
};

GoldenModel golden_model(const std::string& name) {
  const SafetensorsFile file(std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models" /
                             (name + ".safetensors"));
  const base::Json meta = base::parse_json(file.metadata().at("meta"), base::Code::E1202, "golden meta");
  GoldenModel model{.described = import_hf_config(meta["cls"].get<std::string>(), meta["config"]), .ours = {}};
  TensorMap theirs = read_tensors(file, "param.");
  for (const NamePiece& piece : model.described.names.pieces)
    if (!piece.is_trained) theirs[piece.theirs] = read_tensors(file, "buffer.").at(piece.theirs);
  model.ours = import_tensors(model.described.names, theirs);
  return model;
}

class HfExportTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    root_ = std::filesystem::path(::testing::TempDir()) / ("megacpp_export_" + name);
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path at(const std::string& name) const { return root_ / name; }

  std::filesystem::path root_;
};

void expect_equal(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(b.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(b.at(name).data, tensor.data) << name;
  }
}

TEST_P(HfExportTest, AnExportIsImportedAsTheSameModel) {
  const GoldenModel source = golden_model(GetParam());
  const HfExportSummary summary = export_hf_folder(at("out"), source.described.model, source.ours);
  EXPECT_EQ(summary.cls, source.described.cls);
  const ImportedModel back = import_hf_folder(at("out"));
  EXPECT_EQ(back.description.model, source.described.model);
  expect_equal(source.ours, back.tensors);
}

TEST_P(HfExportTest, AnImportedFolderIsWrittenBackToTheByte) {
  const GoldenModel source = golden_model(GetParam());
  for (const StoredType type : {StoredType(ir::DType::f32), StoredType(ir::DType::bf16), StoredType::f16()}) {
    const std::string name(type->safetensors);
    SCOPED_TRACE(name);
    export_hf_folder(at(name), source.described.model, source.ours, {.type = type});
    const ImportedModel imported = import_hf_folder(at(name));
    export_hf_folder(at(name + "-back"), imported.description.model, imported.tensors, {.like = &imported});
    for (const char* file : {"config.json", "model.safetensors"})
      EXPECT_EQ(base::read_file(at(name) / file), base::read_file(at(name + "-back") / file)) << file;
  }
}

TEST_P(HfExportTest, AFolderOfSeveralFilesIsWrittenBackToTheByte) {
  const GoldenModel source = golden_model(GetParam());
  const HfExportSummary summary =
      export_hf_folder(at("out"), source.described.model, source.ours, {.shard_bytes = 40'000});
  base::Json index = parse(base::read_file(at("out") / "model.safetensors.index.json"));
  index["metadata"]["total_parameters"] = 1;  // which the library writes and we do not
  base::write_file_atomically(at("out") / "model.safetensors.index.json", base::to_text(index, 2) + "\n");
  const ImportedModel imported = import_hf_folder(at("out"));
  const auto again = [&](const char* name, const HfExportOptions& options) {
    return export_hf_folder(at(name), imported.description.model, imported.tensors, options);
  };
  EXPECT_EQ(again("back", {.like = &imported}).files, summary.files);
  for (const std::string& file : summary.files)
    EXPECT_EQ(base::read_file(at("out") / file), base::read_file(at("back") / file)) << file;
  EXPECT_LT(again("other", {.like = &imported, .shard_bytes = 80'000}).files.size(), summary.files.size())
      << "a size that was asked for counts";
}

TEST_P(HfExportTest, SmallShardsHaveAnIndexThatReadsBack) {
  const GoldenModel source = golden_model(GetParam());
  const HfExportSummary summary =
      export_hf_folder(at("out"), source.described.model, source.ours, {.shard_bytes = 40'000});
  EXPECT_GT(summary.files.size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(at("out") / "model.safetensors"));
  expect_equal(source.ours, import_hf_folder(at("out")).tensors);
}

INSTANTIATE_TEST_SUITE_P(Golden, HfExportTest,
                         ::testing::Values("bamba", "gemma2", "gemma3", "gpt_oss", "granite_hybrid", "llama3_rope",
                                           "llama_tiny", "llama_yarn", "mamba2_tiny", "mistral_window", "mixtral_tiny",
                                           "nemotron_h_moe", "nemotron_h_tiny", "olmo2", "qwen2", "qwen3", "qwen3_moe",
                                           "recurrent_gemma"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(HfExportTest, FieldsAndTokenizerFilesAreCarriedAlong) {
  const GoldenModel source = golden_model("llama_tiny");
  export_hf_folder(at("first"), source.described.model, source.ours);
  base::Json config = parse(base::read_file(at("first") / "config.json"));
  config["eos_token_id"] = 7;
  base::write_file_atomically(at("first") / "config.json", base::to_text(config));
  base::write_file_atomically(at("first") / "tokenizer.json", "{}");
  const ImportedModel imported = import_hf_folder(at("first"));
  export_hf_folder(at("second"), imported.description.model, imported.tensors,
                   {.like = &imported, .carried = at("first")});
  EXPECT_EQ(base::read_file(at("second") / "tokenizer.json"), "{}");
  const base::Json written = parse(base::read_file(at("second") / "config.json"));
  EXPECT_EQ(written["eos_token_id"], 7);
}

TEST_F(HfExportTest, NothingIsOverwrittenAndNothingHalfIsLeft) {
  GoldenModel source = golden_model("llama_tiny");
  export_hf_folder(at("out"), source.described.model, source.ours);
  const std::string config = base::read_file(at("out") / "config.json");
  problem_of(base::Code::E3001, [&] { export_hf_folder(at("out"), source.described.model, source.ours); });
  EXPECT_EQ(base::read_file(at("out") / "config.json"), config);
  problem_of(base::Code::E1008, [&] {
    std::filesystem::create_directories(at("tokens") / "tokenizer.json");  // a folder cannot be read
    export_hf_folder(at("new"), source.described.model, source.ours, {.carried = at("tokens")});
  });
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    EXPECT_TRUE(entry.path() == at("out") || entry.path() == at("tokens")) << entry.path();
}

TEST_F(HfExportTest, TensorsThatAreMissingOrTooManyAreNamed) {
  GoldenModel source = golden_model("mamba2_tiny");
  source.ours["block00.M.extra"] = {{1}, {0}};
  EXPECT_EQ(
      problem_of(base::Code::E1203, [&] { export_hf_folder(at("out"), source.described.model, source.ours); }).where,
      "tensor block00.M.extra");
  source.ours.erase("block00.M.extra");
  source.ours.erase("block01.M.D");
  EXPECT_EQ(
      problem_of(base::Code::E1203, [&] { export_hf_folder(at("out"), source.described.model, source.ours); }).where,
      "tensor block01.M.D");
}

TEST(HfExportConfigTest, LettersOfARecipesOwnAreBlocksOfTheirFamily) {
  recipe::Model model = golden_model("nemotron_h_tiny").described.model;
  model.letters['X'] = {.family = "M", .settings = {}};
  model.pattern = "MEXAE";
  const ExportedConfig exported = export_hf_config(model);
  EXPECT_EQ(parse(exported.config)["hybrid_override_pattern"], "M-M*-");
  EXPECT_TRUE(std::ranges::any_of(exported.described.names.pieces,
                                  [](const NamePiece& piece) { return piece.ours == "block02.X.D"; }));
}

TEST(HfExportConfigTest, ModelsThatNoClassComputesAlikeAreRefusedWithTheReason) {
  const auto reason = [](const char* name, const auto& change, const std::string& cls = "") {
    recipe::Model model = golden_model(name).described.model;
    change(model);
    return problem_of(base::Code::E1202, [&] { export_hf_config(model, {.cls = cls}); }).got;
  };
  EXPECT_NE(
      reason(
          "llama_tiny", [](recipe::Model& m) { m.config<blocks::Attention>().qk_norm = true; }, "LlamaForCausalLM")
          .find("model.attention.qk_norm true, not false"),
      std::string::npos);
  EXPECT_NE(reason(
                "llama_tiny", [](recipe::Model& m) { m.config<blocks::Attention>().window = 8; }, "LlamaForCausalLM")
                .find("LlamaForCausalLM (model.attention.window 8, not 0)"),
            std::string::npos);
  EXPECT_NE(reason("mixtral_tiny", [](recipe::Model& m) { m.config<blocks::FeedForward>().capacity_factor = 1.25; })
                .find("model.feed_forward.capacity_factor 1.25, not 0"),
            std::string::npos);
  EXPECT_NE(reason("llama_tiny", [](recipe::Model& m) { m.embed_scale = 2; }).find("model.embed_scale 2, not 1"),
            std::string::npos);
  EXPECT_NE(reason("llama_tiny", [](recipe::Model& m) { m.pattern = "AEE"; }).find("blocks AEEAEE"), std::string::npos);
}

TEST(HfExportConfigTest, TheFirstClassThatComputesTheSameIsTaken) {
  const auto class_of = [](const auto& change, const std::string& preferred = "") {
    recipe::Model model = golden_model("llama_tiny").described.model;
    change(model);
    return export_hf_config(model, {.preferred = preferred}).described.cls;
  };
  const auto as_it_is = [](recipe::Model&) {};
  EXPECT_EQ(class_of(as_it_is), "LlamaForCausalLM");
  EXPECT_EQ(class_of(as_it_is, "MistralForCausalLM"), "MistralForCausalLM");
  EXPECT_EQ(class_of([](recipe::Model& m) { m.config<blocks::Attention>().window = 8; }), "MistralForCausalLM");
  EXPECT_EQ(class_of([](recipe::Model& m) { m.config<blocks::Attention>().qkv_bias = true; }), "Qwen2ForCausalLM");
  EXPECT_EQ(class_of([](recipe::Model& m) { m.config<blocks::Attention>().qk_norm = true; }), "Qwen3ForCausalLM");
}

TEST(HfExportConfigTest, OurTimeStepsWithoutAClampStayWithoutOne) {
  recipe::Model model = golden_model("nemotron_h_tiny").described.model;
  model.config<blocks::Mamba>().dt_limit_low = 0;
  const base::Json config = parse(export_hf_config(model).config);
  EXPECT_EQ(config["time_step_min"], 0.0);
  EXPECT_EQ(import_hf_config("NemotronHForCausalLM", config).model.config<blocks::Mamba>().dt_limit_low, 0);
}

TEST(HfExportConfigTest, InfinityOfACarriedConfigIsWrittenAsTheLibrarySpellsIt) {
  const HfModel bamba = golden_model("bamba").described;
  base::Json config = parse(export_hf_config(bamba.model).config);
  config["time_step_limit"] = base::Json::array({0.0, base::Json{{"__float__", "Infinity"}}});
  std::string text = base::to_text(config);
  const std::string spelled = R"({"__float__":"Infinity"})";
  ASSERT_NE(text.find(spelled), std::string::npos) << text;
  text.replace(text.find(spelled), spelled.size(), "Infinity");
  const base::Json written = parse(export_hf_config(bamba.model, {.carried = text}).config);
  EXPECT_EQ(written["time_step_limit"], config["time_step_limit"]);
}

TEST(HfExportConfigTest, AClassThatIsNamedMustExist) {
  const recipe::Model model = golden_model("llama_tiny").described.model;
  problem_of(base::Code::E1202, [&] { export_hf_config(model, {.cls = "BertModel"}); });
  EXPECT_EQ(parse(export_hf_config(model, {.cls = "LlamaForCausalLM"}).config)["model_type"], "llama");
}

}  // namespace
}  // namespace megacpp::checkpoint
