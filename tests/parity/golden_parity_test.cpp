// SPDX-License-Identifier: Apache-2.0
// Every golden file of a public reference model: outputs within 1e-5, every gradient within 1e-4, in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/checkpoint/safetensors.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/train/parity.h"

namespace megacpp::train {
namespace {

const std::filesystem::path kModels = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models";

std::vector<std::string> golden_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

ParityReport parity_of(const std::filesystem::path& file, int threads) {
  return run_parity(file, runtime::cpu::cpu_target(threads), [threads](const compile::Compiled& compiled) {
    return runtime::cpu::load({{&compiled.programs[0], &compiled.memory.programs[0]}}, compiled.memory,
                              {.threads = threads});
  });
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

TEST(GoldenParityErrorTest, AWrongGradientFailsTheReport) {
  // A copy of a golden file in which one gradient is off by a thousandth of its norm.
  const checkpoint::SafetensorsFile golden(kModels / "llama_mqa.safetensors");
  std::vector<checkpoint::StoredTensor> tensors(golden.tensors().begin(), golden.tensors().end());
  std::vector<float> changed;
  for (checkpoint::StoredTensor& tensor : tensors) {
    if (tensor.name != "grad.lm_head.weight") continue;
    changed = checkpoint::to_floats(tensor);
    for (float& element : changed) element *= 1.001F;
    tensor.bytes = std::as_bytes(std::span(changed));
  }
  const std::filesystem::path copy = std::filesystem::path(testing::TempDir()) / "megacpp_wrong_gradient.safetensors";
  checkpoint::write_safetensors(copy, tensors, golden.metadata());
  const ParityReport report = parity_of(copy, 1);
  std::filesystem::remove(copy);
  EXPECT_FALSE(report.passed());
  for (const ParityRow& row : report.rows) EXPECT_EQ(row.passed, row.name != "grad.lm_head.weight") << row.name;
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
