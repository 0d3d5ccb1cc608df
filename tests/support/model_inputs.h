// SPDX-License-Identifier: Apache-2.0
// Values for every input of a small model's program: parameters as initialised (biases moved away from zero), a random
// batch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/program/blocks/parameter.h"
#include "tests/support/tensors.h"

namespace megacpp::testing_support {

inline std::map<std::string, ops::Tensor> model_inputs(const ir::Graph& graph,
                                                       const std::vector<blocks::Parameter>& parameters,
                                                       int64_t vocab) {
  std::map<std::string, ops::Tensor> inputs = random_inputs(graph, "model", static_cast<double>(vocab));
  for (const blocks::Parameter& parameter : parameters) {
    std::vector<float> values(static_cast<size_t>(ir::num_elements(parameter.shape)));
    blocks::initialise(parameter, 3, 0, values);
    ops::Tensor& tensor = inputs.at(parameter.name);
    for (size_t i = 0; i < values.size(); ++i)
      tensor.data[i] = ir::rounded(tensor.type.dtype, static_cast<double>(values[i]) + 0.1 * tensor.data[i]);
  }
  if (const auto labels = inputs.find("batch.labels"); labels != inputs.end()) labels->second[1] = -1;  // masked
  if (const auto segments = inputs.find("batch.segments"); segments != inputs.end()) {
    ops::Tensor& tensor = segments->second;  // two documents a row
    const int64_t length = tensor.type.dim(1);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor[i] = i % length < length / 2 ? 0 : 1;
  }
  if (const auto positions = inputs.find("batch.document_positions"); positions != inputs.end()) {
    ops::Tensor& tensor = positions->second;  // of the same documents
    const int64_t length = tensor.type.dim(1);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor[i] = static_cast<double>(i % length - (i % length < length / 2 ? 0 : length / 2));
  }
  return inputs;
}

}  // namespace megacpp::testing_support
