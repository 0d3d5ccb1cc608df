// SPDX-License-Identifier: Apache-2.0
// Packing changes nothing: documents that share a sequence give the losses and gradients that each gives alone.
#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/evaluator.h"
#include "tests/support/model_inputs.h"
#include "tests/support/small_models.h"

namespace megacpp::testing_support {
namespace {

using Tensors = std::map<std::string, ops::Tensor>;

const std::vector<int64_t> kLengths = {7, 1, 5, 11};  // chunks of the state-space scan have 4 tokens

recipe::Model masked_model(const std::string& pattern) {
  return small_model("packed", pattern, [](recipe::Model& model) {
    model.config<blocks::Attention>().document_mask = true;
    model.config<blocks::Mamba>().document_mask = true;
    model.config<blocks::Recurrent>().document_mask = true;
  });
}

/// Loss and gradients of one sequence of `length` tokens, whose batch `fill` writes.
template <typename Fill>
Tensors gradients_of(const recipe::Model& model, int64_t length, const Fill& fill) {
  compile::GradientRequest request{.forward = model::build_forward(model, {.sequences = 1, .length = length})};
  const compile::Compiled compiled = compile::compile_gradients(std::move(request), runtime::cpu::cpu_target(1));
  const ir::Graph& graph = compiled.stages[0].find(compile::ProgramKind::gradients).graph;
  Tensors inputs = model_inputs(graph, compiled.parameters, model.vocab);
  fill(inputs);
  return ops::evaluate(graph, inputs, ops::Rounding::none);
}

// Token t of the packed sequence, wherever it stands.
void write_tokens(Tensors& inputs, int64_t first, int64_t vocab) {
  for (int64_t i = 0; i < inputs.at("batch.ids").elements(); ++i) {
    const int64_t t = first + i;
    inputs.at("batch.ids")[i] = static_cast<double>(t * t % vocab);
    inputs.at("batch.labels")[i] = static_cast<double>((3 * t + 1) % vocab);
  }
}

// One document: all tokens in it.
void write_alone(Tensors& inputs) {
  if (const auto at = inputs.find("batch.segments"); at != inputs.end())
    for (double& segment : at->second.data) segment = 0;
  if (const auto at = inputs.find("batch.document_positions"); at != inputs.end())
    for (int64_t i = 0; i < at->second.elements(); ++i) at->second[i] = static_cast<double>(i);
}

void write_packed(Tensors& inputs) {
  int64_t t = 0;
  for (size_t document = 0; document < kLengths.size(); ++document)
    for (int64_t i = 0; i < kLengths[document]; ++i, ++t) {
      if (const auto at = inputs.find("batch.segments"); at != inputs.end())
        at->second[t] = static_cast<double>(document);
      if (const auto at = inputs.find("batch.document_positions"); at != inputs.end())
        at->second[t] = static_cast<double>(i);
    }
}

class PackedDocumentsTest : public testing::TestWithParam<const char*> {};

TEST_P(PackedDocumentsTest, GiveTheLossesAndGradientsOfEachAlone) {
  const recipe::Model model = masked_model(GetParam());
  int64_t total = 0;
  for (const int64_t length : kLengths) total += length;
  Tensors sum;  // of all documents, each with its share of the tokens
  int64_t first = 0;
  for (const int64_t length : kLengths) {
    const Tensors alone = gradients_of(model, length, [&](Tensors& inputs) {
      write_tokens(inputs, first, model.vocab);
      write_alone(inputs);
    });
    for (const auto& [name, tensor] : alone) {
      ops::Tensor& to = sum.try_emplace(name, ops::Tensor::zeros(tensor.type)).first->second;
      for (int64_t i = 0; i < tensor.elements(); ++i)
        to[i] += tensor[i] * static_cast<double>(length) / static_cast<double>(total);
    }
    first += length;
  }
  const Tensors packed = gradients_of(model, total, [&](Tensors& inputs) {
    write_tokens(inputs, 0, model.vocab);
    write_packed(inputs);
  });
  size_t compared = 0;
  for (const auto& [name, tensor] : packed) {
    if (name != "loss" && !name.starts_with("grad.")) continue;
    ++compared;
    double largest = 1e-6;
    for (const double value : tensor.data) largest = std::max(largest, std::abs(value));
    for (int64_t i = 0; i < tensor.elements(); ++i)
      ASSERT_NEAR(tensor[i], sum.at(name)[i], 1e-6 * largest) << name << " element " << i;
  }
  EXPECT_GT(compared, 5u);
}

INSTANTIATE_TEST_SUITE_P(Families, PackedDocumentsTest, testing::Values("A", "M", "R", "AEMR", "MAMR"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace megacpp::testing_support
