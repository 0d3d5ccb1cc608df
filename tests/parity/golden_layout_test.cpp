// SPDX-License-Identifier: Apache-2.0
// Golden files of public reference models on many chips: outputs and every gradient as close to the reference as on
// one chip. Together the rows of a file use every axis that its sizes allow.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <ostream>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/train/parity.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {
namespace {

const std::filesystem::path kModels = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models";
constexpr int kThreads = 2;

struct Row {
  std::string file;
  std::string words;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.file << " " << row.words; }

const std::vector<Row> kRows = {
    // 8 heads over 2 key-value heads, 3 layers, 2 sequences of 48
    {"llama_tiny", "data_parallel=2 tensor_parallel=2"},
    {"llama_tiny", "tensor_parallel=8"},
    {"llama_tiny", "tensor_parallel=8 sequence_parallel=false"},
    {"llama_tiny", "context_parallel=4"},
    {"llama_tiny", "context_parallel=2 context_attention=alltoall"},
    {"llama_tiny", "context_parallel=2 tensor_parallel=4"},
    {"llama_tiny", "data_parallel=2 context_parallel=3 zero=3"},
    {"llama_tiny", "pipeline_parallel=3"},
    {"llama_tiny", "pipeline_parallel=2 data_parallel=2 tensor_parallel=2"},
    // 4 heads over 1, 1 layer, a sequence of 130
    {"llama_mqa", "tensor_parallel=2"},
    {"llama_mqa", "tensor_parallel=4 sequence_parallel=false"},
    {"llama_mqa", "context_parallel=5"},
    {"llama_mqa", "context_parallel=2 load_balance=false"},
    {"llama_mqa", "pipeline_parallel=2"},
    // 6 heads over 3, 2 layers, tied, 3 sequences of 37
    {"llama_odd", "data_parallel=2"},
    {"llama_odd", "data_parallel=3 zero=3"},
    {"llama_odd", "tensor_parallel=3 sequence_parallel=false"},
    {"llama_odd", "tensor_parallel=6 sequence_parallel=false"},
    {"llama_odd", "data_parallel=2 tensor_parallel=3 sequence_parallel=false zero=2"},
    {"llama_odd", "pipeline_parallel=3"},
    // 8 heads in 2 groups, 3 layers, 2 sequences of 48
    {"mamba2_tiny", "data_parallel=2 tensor_parallel=2"},
    {"mamba2_tiny", "tensor_parallel=8"},
    {"mamba2_tiny", "context_parallel=4"},
    {"mamba2_tiny", "context_parallel=3 load_balance=false"},
    {"mamba2_tiny", "context_parallel=2 tensor_parallel=2"},
    {"mamba2_tiny", "pipeline_parallel=3"},
    // 6 heads in 3 groups, 2 sequences of 19
    {"mamba2_groups", "data_parallel=2"},
    {"mamba2_groups", "tensor_parallel=3 sequence_parallel=false"},
    {"mamba2_groups", "tensor_parallel=6 sequence_parallel=false"},
    {"mamba2_groups", "data_parallel=2 tensor_parallel=3 sequence_parallel=false zero=3"},
    // 6 heads in 1 group, 2 layers, 2 sequences of 41
    {"mamba2_ragged", "data_parallel=2 zero=3"},
    {"mamba2_ragged", "tensor_parallel=2 sequence_parallel=false"},
    {"mamba2_ragged", "tensor_parallel=3 sequence_parallel=false"},
    {"mamba2_ragged", "data_parallel=2 tensor_parallel=3 sequence_parallel=false"},
    {"mamba2_ragged", "pipeline_parallel=2"},
    // 4 experts, 8 heads over 4, 2 layers, 2 sequences of 40
    {"mixtral_tiny", "data_parallel=2 tensor_parallel=2"},
    {"mixtral_tiny", "expert_parallel=2"},
    {"mixtral_tiny", "expert_parallel=2 dispatcher=allgather"},
    {"mixtral_tiny", "expert_parallel=2 tensor_parallel=2"},
    {"mixtral_tiny", "expert_parallel=2 tensor_parallel=4 expert_tensor_parallel=2"},
    {"mixtral_tiny", "expert_parallel=2 context_parallel=2"},
    {"mixtral_tiny", "context_parallel=4"},
    {"mixtral_tiny", "tensor_parallel=8"},
    {"mixtral_tiny", "pipeline_parallel=3"},
    // 7 experts, 3 a token, 4 heads over 2, 3 layers, 2 sequences of 29
    {"mixtral_top3", "data_parallel=2"},
    {"mixtral_top3", "tensor_parallel=2 sequence_parallel=false"},
    {"mixtral_top3", "data_parallel=2 tensor_parallel=4 sequence_parallel=false zero=3"},
    {"mixtral_top3", "pipeline_parallel=3"},
    // 4 experts, 2 a token, 4 heads over 2, 2 layers, 4 sequences of 24
    {"mixtral_four", "expert_parallel=4"},
    {"mixtral_four", "expert_parallel=4 dispatcher=allgather"},
    {"mixtral_four", "expert_parallel=2 data_parallel=2 zero=3"},
    {"mixtral_four", "expert_parallel=4 tensor_parallel=2"},
    // 3 experts, window of 9, 4 heads, 2 sequences of 33
    {"mixtral_window", "data_parallel=2"},
    {"mixtral_window", "tensor_parallel=4 sequence_parallel=false"},
    {"mixtral_window", "context_parallel=3 load_balance=false"},
    {"mixtral_window", "data_parallel=2 context_parallel=3 load_balance=false zero=3"},
    // A, M and E; 8 heads over 2, 8 heads in 2 groups, 5 blocks, 2 sequences of 32
    {"nemotron_h_tiny", "data_parallel=2 tensor_parallel=2"},
    {"nemotron_h_tiny", "tensor_parallel=8"},
    {"nemotron_h_tiny", "context_parallel=4"},
    {"nemotron_h_tiny", "context_parallel=2 tensor_parallel=2 sequence_parallel=false"},
    {"nemotron_h_tiny", "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3"},
    {"nemotron_h_tiny", "pipeline_parallel=3"},
    // 5 heads over 1 and 4 in 4 groups, which have no common divisor; 6 blocks, 2 sequences of 27
    {"nemotron_h_odd", "data_parallel=2 zero=3"},
    {"nemotron_h_odd", "context_parallel=3 load_balance=false"},
    {"nemotron_h_odd", "data_parallel=2 context_parallel=3 load_balance=false"},
    {"nemotron_h_odd", "pipeline_parallel=3"},
    // 8 heads over 2, 2 layers, 2 sequences of 48, in this and the files that follow; rope in the manner of Llama 3.1
    {"llama3_rope", "data_parallel=2 zero=3"},
    {"llama3_rope", "tensor_parallel=2"},
    {"llama3_rope", "context_parallel=2 tensor_parallel=2"},
    {"llama3_rope", "pipeline_parallel=2"},
    {"llama_yarn", "data_parallel=2 zero=3"},
    {"llama_yarn", "tensor_parallel=2"},
    {"llama_yarn", "context_parallel=4"},
    {"llama_yarn", "pipeline_parallel=2"},
    // a window of 16
    {"mistral_window", "data_parallel=2 zero=3"},
    {"mistral_window", "tensor_parallel=2"},
    {"mistral_window", "context_parallel=2"},
    {"mistral_window", "pipeline_parallel=2"},
    // biases of q, k and v, whose heads chips share
    {"qwen2", "data_parallel=2 zero=3"},
    {"qwen2", "tensor_parallel=4"},
    {"qwen2", "context_parallel=2 context_attention=alltoall"},
    {"qwen2", "context_parallel=2 tensor_parallel=2"},
    {"qwen2", "pipeline_parallel=2"},
    {"qwen3", "data_parallel=2 zero=3"},
    {"qwen3", "tensor_parallel=2"},
    {"qwen3", "context_parallel=2"},
    {"qwen3", "pipeline_parallel=2"},
    // 4 experts, 2 a token
    {"qwen3_moe", "expert_parallel=2"},
    {"qwen3_moe", "data_parallel=2 zero=3"},
    {"qwen3_moe", "tensor_parallel=2"},
    {"qwen3_moe", "context_parallel=2"},
    {"qwen3_moe", "pipeline_parallel=2"},
    // norms behind blocks, and over heads that other chips have
    {"olmo2", "data_parallel=2 zero=3"},
    {"olmo2", "tensor_parallel=2"},
    {"olmo2", "tensor_parallel=4 sequence_parallel=false"},
    {"olmo2", "context_parallel=2 tensor_parallel=2"},
    {"olmo2", "pipeline_parallel=2"},
    // soft caps, a window of 12 in one of two layers, norms before and behind
    {"gemma2", "data_parallel=2 zero=3"},
    {"gemma2", "tensor_parallel=2"},
    {"gemma2", "context_parallel=2 tensor_parallel=2"},
    {"gemma2", "context_parallel=2 context_attention=alltoall"},
    {"gemma2", "pipeline_parallel=2"},
    {"gemma3", "data_parallel=2 zero=3"},
    {"gemma3", "tensor_parallel=2"},
    {"gemma3", "context_parallel=2"},
    {"gemma3", "pipeline_parallel=2"},
    // M, A and 4 experts with a shared one; 8 heads of M in 2 groups
    {"nemotron_h_moe", "expert_parallel=2"},
    {"nemotron_h_moe", "data_parallel=2 zero=3"},
    {"nemotron_h_moe", "tensor_parallel=2"},
    {"nemotron_h_moe", "context_parallel=2"},
    {"nemotron_h_moe", "pipeline_parallel=2"},
    // multipliers; 8 heads of M in 1 group, 3 layers
    {"granite_hybrid", "expert_parallel=2"},
    {"granite_hybrid", "data_parallel=2 zero=3"},
    {"granite_hybrid", "tensor_parallel=2"},
    {"granite_hybrid", "context_parallel=2 tensor_parallel=2"},
    {"granite_hybrid", "pipeline_parallel=2"},
    {"bamba", "data_parallel=2 zero=3"},
    {"bamba", "tensor_parallel=2"},
    {"bamba", "context_parallel=2"},
    {"bamba", "pipeline_parallel=3"},
    // R with 8 heads, local attention with one key-value head, GeGLU with biases; 3 layers
    {"recurrent_gemma", "data_parallel=2 zero=3"},
    {"recurrent_gemma", "tensor_parallel=2"},
    {"recurrent_gemma", "context_parallel=2 tensor_parallel=2"},
    {"recurrent_gemma", "pipeline_parallel=3"},
    // sinks, biases in 4 experts
    {"gpt_oss", "expert_parallel=2"},
    {"gpt_oss", "expert_parallel=2 tensor_parallel=2"},
    {"gpt_oss", "data_parallel=2 zero=3"},
    {"gpt_oss", "tensor_parallel=2"},
    {"gpt_oss", "context_parallel=2"},
    {"gpt_oss", "context_parallel=2 context_attention=alltoall"},
    {"gpt_oss", "context_parallel=2 tensor_parallel=2"},
    {"gpt_oss", "pipeline_parallel=2"},
    // a lone R mixer, 4 heads, 2 sequences of 48
    {"rglru_block", "data_parallel=2"},
    {"rglru_block", "tensor_parallel=4"},
    {"rglru_block", "context_parallel=4"},
    {"rglru_block", "context_parallel=3 load_balance=false"},
    {"rglru_block", "data_parallel=2 context_parallel=2 tensor_parallel=2"},
};

train::ParityReport parity_of(const Row& row) {
  recipe::Recipe settings;
  settings.train.threads = kThreads;
  recipe::apply_overrides(settings, overrides_of(row.words));
  return train::run_parity(kModels / (row.file + ".safetensors"), settings, runtime::backend_named("cpu"));
}

class GoldenLayoutTest : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenLayoutTest, testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.file + "_" + test_name(info.param.words); });

TEST_P(GoldenLayoutTest, OutputsAndEveryGradientEqualTheReference) {
  const train::ParityReport report = parity_of(GetParam());
  EXPECT_TRUE(report.passed());
  for (const train::ParityRow& row : report.rows)
    EXPECT_TRUE(row.passed) << row.name << " is off by " << row.relative_error << ", allowed is " << row.tolerance;
}

TEST(GoldenLayoutTableTest, EveryFileStandsInAtLeastThreeRows) {
  std::map<std::string, int> rows;
  for (const Row& row : kRows) ++rows[row.file];
  for (const auto& entry : std::filesystem::directory_iterator(kModels))
    EXPECT_GE(rows[entry.path().stem().string()], 3) << entry.path();
}

}  // namespace
}  // namespace megacpp::testing_support
