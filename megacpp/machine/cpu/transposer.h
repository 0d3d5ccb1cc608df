// SPDX-License-Identifier: Apache-2.0
// Permutes the dimensions of an f32 tensor. Dimensions that stay together are merged first, so most permutations become
// a few nested loops around contiguous rows or a blocked 2-D transpose.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::runtime::cpu {

class Transposer {
 public:
  Transposer() = default;
  /// Result dimension i is source dimension permutation[i].
  Transposer(const ir::Shape& source, const std::vector<int64_t>& permutation);

  void run(const float* from, float* to, base::ThreadPool& pool) const;

 private:
  void copy_rows(const float* from, float* to, int64_t begin, int64_t end) const;

  ir::Shape shape_;   // of the result, merged
  ir::Shape stride_;  // in the source, per result dimension
  int64_t rows_ = 0;  // product of all result dimensions but the last
};

}  // namespace megacpp::runtime::cpu
