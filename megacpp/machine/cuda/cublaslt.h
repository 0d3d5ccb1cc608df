// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded at run time: its functions by our own declarations, and matrix products as objects. Enumerations are
// ints with the library's numbers; tests/cuda compares them with its own header where there is one. Matrices are its
// own: column by column.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/ir/dtype.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/library.h"

namespace megacpp::runtime::cuda {

/// One matrix for each of `batch`; strides and `leading` (from a column to the next) in elements.
struct LtMatrix {
  ir::DType dtype = ir::DType::f32;
  int64_t rows = 1, columns = 1;
  int64_t leading = 1;
  int64_t batch = 1, batch_stride = 0;
  int64_t alignment = 256;  // bytes, of every address it is used at

  int64_t bytes() const {
    return ((batch - 1) * batch_stride + (columns - 1) * leading + rows) * ir::dtype_bytes(dtype);
  }
};

/// d[m, n] = a[m, k] * b[k, n], with a matrix like d added where asked for. A transposed side is stored as its
/// transpose: `a` then has k rows. Sums are in f32; f32 sides are multiplied as such.
struct LtProblem {
  LtMatrix a = {}, b = {}, d = {};
  bool transpose_a = false, transpose_b = false;
  bool accumulates = false;
  int64_t workspace_bytes = 0;  // at most

  int64_t k() const { return transpose_a ? a.rows : a.columns; }
  double flops() const;
};

/// Equal for problems that any algorithm serves alike.
std::string to_string(const LtProblem& problem);

/// cublasLtMatmulAlgo_t: bytes that may be kept for the same version of the library.
struct LtAlgorithm {
  std::array<uint64_t, 8> data = {};
};

/// cublasLtMatmulHeuristicResult_t.
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

struct LtAddresses {
  Address a = 0, b = 0, d = 0;
  Address addend = 0;  // may be d's; not read where the problem does not accumulate
  Address workspace = 0;
};

/// How the algorithm of a problem was found.
enum class LtOrigin {
  kept,        // by an earlier load
  searched,    // now
  shared,      // by another process of the run, or for the first GPU of this one
  unsearched,  // the library's first proposal, where a search was wanted
  small,       // the library's first proposal for a product that is not worth a search
};

struct LtChoice {
  LtAlgorithm algorithm = {};
  LtOrigin origin = LtOrigin::small;
  std::string cause =
      {};              // why none that was kept serves, and why it was not searched; empty where that is no question
  double seconds = 0;  // of one product where it was measured, now or when it was kept
};

struct LtEntries;

class CublasLt {
 public:
  /// The context of the GPU is current. E1503 where the library is too old, E3204 where it does not start.
  explicit CublasLt(const Library& library);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // "13.1.0"

  /// By to_string of their problems: filled by choose_algorithm (algorithm_search.h).
  std::map<std::string, LtChoice>& choices() { return choices_; }
  const std::map<std::string, LtChoice>& choices() const { return choices_; }
  /// That searches have taken so far.
  double searched_seconds() const { return searched_seconds_; }
  void add_searched_seconds(double seconds) { searched_seconds_ += seconds; }

 private:
  friend class LtProduct;

  std::unique_ptr<const LtEntries> entries_;
  void* handle_ = nullptr;
  std::map<std::string, LtChoice> choices_;
  double searched_seconds_ = 0;
};

/// A problem as the library describes it. The library outlives it.
class LtProduct {
 public:
  LtProduct(const CublasLt& library, const LtProblem& problem);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  const LtProblem& problem() const { return problem_; }

  /// At most so many that the library proposes, best first by its own rules; none where it cannot solve the problem.
  /// All of them add up in a fixed order, and in f32: the same operands give the same bits.
  std::vector<LtAlgorithm> proposals(int most) const;

  /// Whether the library takes the algorithm for this problem, in its workspace and in a fixed order of sums.
  bool serves(const LtAlgorithm& algorithm) const;

  /// Only enqueues.
  void run(const LtAlgorithm& algorithm, const LtAddresses& at, Stream* stream) const;

 private:
  const LtEntries& entries_;
  void* handle_;
  LtProblem problem_;
  void* description_ = nullptr;
  void *a_ = nullptr, *b_ = nullptr, *d_ = nullptr;
};

}  // namespace megacpp::runtime::cuda
