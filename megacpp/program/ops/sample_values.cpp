// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/sample_values.h"

#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/evaluator.h"

namespace megacpp::ops {

std::vector<Tensor> sample_operands(const OpDef& op, const Sample& sample) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const base::Philox random(1, op.name + "/" + sample.name + "/" + std::to_string(i));
    Tensor operand = Tensor::zeros(sample.operands[i]);
    for (int64_t e = 0; e < operand.elements(); ++e) {
      const double value = sample.low + (sample.high - sample.low) * random.uniform(static_cast<uint64_t>(e));
      operand[e] = ir::rounded(operand.type.dtype, ir::is_float(operand.type.dtype) ? value : std::floor(value));
    }
    operands.push_back(std::move(operand));
  }
  if (sample.fill) sample.fill(operands);
  return operands;
}

void fill_document_positions(Tensor& positions) {
  const int64_t length = positions.type.dim(-1);
  for (int64_t i = 0; i < positions.elements(); ++i) {
    const int64_t row = i / length, t = i % length;
    const double first = row % 2 == 0 ? 0.0 : 5.0;
    positions[i] = t == 0 ? first : (t + row) % 3 == 0 ? 0.0 : positions[i - 1] + 1;
  }
}

}  // namespace megacpp::ops
