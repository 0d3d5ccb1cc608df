// SPDX-License-Identifier: Apache-2.0
// Every golden file of a public reference model: outputs within 1e-5, every gradient within 1e-4, in f32.
#include "megacpp/run/train/parity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "tests/support/errors.h"

namespace megacpp::train {
namespace {

const std::filesystem::path kModels = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models";

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

ParityReport parity_of(const std::filesystem::path& file, int threads, const recipe::Layout& layout = {}) {
  recipe::Recipe settings;
  settings.train.threads = threads;
  settings.layout = layout;
  return run_parity(file, settings, runtime::backend_named("cpu"));
}

class GoldenParityTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenParityTest, testing::ValuesIn(golden_files()),
                         [](const auto& info) { return info.param; });

TEST_P(GoldenParityTest, OutputsAndEveryGradientEqualTheReference) {
  const std::filesystem::path file = kModels / (GetParam() + ".safetensors");
  const ParityReport report = parity_of(file, 2);
  for (const ParityRow& row : report.rows) EXPECT_TRUE(row.passed) << row.name << " is off by " << row.relative_error;
  size_t compared = 0;
  const checkpoint::SafetensorsFile golden(file);
  for (const checkpoint::StoredTensor& tensor : golden.tensors())
    compared += tensor.name.rfind("out.", 0) == 0 || tensor.name.rfind("grad.", 0) == 0 ? 1 : 0;
  EXPECT_EQ(report.rows.size(), compared) << "every output and gradient in the file has a row";
}

// A copy of a golden file in memory, to be spoilt and written back.
struct GoldenCopy {
  explicit GoldenCopy(const std::string& name = "llama_mqa") : golden(kModels / (name + ".safetensors")) {
    tensors.assign(golden.tensors().begin(), golden.tensors().end());
    metadata = golden.metadata();
    // Tests may run side by side.
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    copy = std::filesystem::path(testing::TempDir()) / ("megacpp_" + test + ".safetensors");
  }
  ~GoldenCopy() { std::filesystem::remove(copy); }

  checkpoint::StoredTensor& at(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
  }
  void add_as(const std::string& name, checkpoint::StoredTensor tensor) {
    tensor.name = name;
    tensors.push_back(tensor);
  }
  void set_token(const std::string& name, size_t place, int32_t token) {
    tokens = checkpoint::to_ints(at(name));
    tokens[place] = token;
    at(name).bytes = std::as_bytes(std::span(tokens));
  }
  void set_config(const std::string& field, const std::string& value) {
    std::string& meta = metadata.at("meta");
    const size_t begin = meta.find("\"" + field + "\": ") + field.size() + 4;
    meta.replace(begin, meta.find_first_of(",}", begin) - begin, value);
  }
  ParityReport report() const {
    checkpoint::write_safetensors(copy, tensors, metadata);
    return parity_of(copy, 1);
  }
  base::Problem refusal(base::Code code) const {
    return testing_support::problem_of(code, [&] { report(); });
  }

  checkpoint::SafetensorsFile golden;
  std::filesystem::path copy;
  std::vector<checkpoint::StoredTensor> tensors;
  checkpoint::Metadata metadata;
  std::vector<int32_t> tokens;
};

TEST(GoldenParityErrorTest, AWrongGradientFailsTheReport) {
  GoldenCopy copy;
  std::vector<float> changed = checkpoint::to_floats(copy.at("grad.lm_head.weight"));
  for (float& element : changed) element *= 1.001F;
  copy.at("grad.lm_head.weight").bytes = std::as_bytes(std::span(changed));
  const ParityReport report = copy.report();
  EXPECT_FALSE(report.passed());
  for (const ParityRow& row : report.rows) EXPECT_EQ(row.passed, row.name != "grad.lm_head.weight") << row.name;
}

TEST(GoldenParityErrorTest, EveryTensorThatMustBeComparedMustBeThere) {
  for (const char* name : {"out.logits", "out.loss", "grad.lm_head.weight", "param.lm_head.weight", "in.labels"}) {
    GoldenCopy copy;
    copy.remove(name);
    const std::string wanted = std::string(name).starts_with("param.") ? name + 6 : name;
    const base::Problem problem = copy.refusal(base::Code::E1203);
    EXPECT_EQ(problem.where, "tensor " + wanted);
    EXPECT_EQ(problem.got, "nothing");
    EXPECT_FALSE(problem.next.empty());
  }
  for (const char* name : {"out.y", "grad.x", "grad.linear_x.bias", "in.cotangent"}) {
    GoldenCopy copy("rglru_block");
    copy.remove(name);
    EXPECT_EQ(copy.refusal(base::Code::E1203).where, "tensor " + std::string(name));
  }
}

TEST(GoldenParityErrorTest, ATensorWithoutCounterpartIsRefused) {
  for (const char* name : {"out.hidden_states", "grad.model.no_such_weight", "param.no_such_weight"}) {
    GoldenCopy copy;
    copy.add_as(name, copy.at("out.logits"));
    const std::string wanted = std::string(name).starts_with("param.") ? name + 6 : name;
    EXPECT_EQ(copy.refusal(base::Code::E1203).where, "tensor " + wanted);
  }
}

TEST(GoldenParityErrorTest, ShapesAreComparedAndNotOnlyElementCounts) {
  for (const char* name : {"out.logits", "grad.lm_head.weight", "in.labels"}) {
    GoldenCopy copy;
    ir::Shape& shape = copy.at(name).shape;
    std::reverse(shape.begin(), shape.end());
    EXPECT_EQ(copy.refusal(base::Code::E1203).where, "tensor " + std::string(name));
  }
}

TEST(GoldenParityErrorTest, TokensMustBeInsideTheVocabulary) {
  for (const auto& [name, token] : {std::pair("in.ids", 53), {"in.ids", -1}, {"in.labels", 53}}) {
    GoldenCopy copy;
    copy.set_token(name, 3, token);
    const base::Problem problem = copy.refusal(base::Code::E1102);
    EXPECT_EQ(problem.where, "tensor " + std::string(name) + ", element 3");
    EXPECT_EQ(problem.got, std::to_string(token));
  }
  GoldenCopy masked;
  masked.set_token("in.labels", 3, -100);
  EXPECT_FALSE(masked.report().rows.empty());
}

TEST(GoldenParityErrorTest, AbsurdSizesAreRefusedBeforeAnythingIsBuilt) {
  GoldenCopy deep;
  deep.set_config("num_hidden_layers", "1000000000");
  EXPECT_EQ(deep.refusal(base::Code::E1003).where, "model.depth");
  GoldenCopy deeper;
  deeper.set_config("num_hidden_layers", "9000000000000000000");
  EXPECT_EQ(deeper.refusal(base::Code::E1202).where, "LlamaForCausalLM num_hidden_layers");
  GoldenCopy missing_layers;
  missing_layers.set_config("num_hidden_layers", "40000");
  EXPECT_EQ(missing_layers.refusal(base::Code::E1203).got, "nothing");
}

TEST(GoldenParityErrorTest, AFileWithoutConfigurationIsRefused) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "megacpp_no_meta.safetensors";
  checkpoint::write_safetensors(file, {}, {});
  try {
    parity_of(file, 1);
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1202);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace megacpp::train
