// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cublaslt.h"

#include <gtest/gtest.h>

#include "megacpp/machine/cuda/cublaslt_numbers.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace megacpp::runtime::cuda {
namespace {

TEST(CublasLtTest, DeclarationsAreThoseOfTheLibrarysHeader) {
#if __has_include(<cublasLt.h>)
  EXPECT_EQ(kLtF32, CUDA_R_32F);
  EXPECT_EQ(ir::record(ir::DType::f32).cuda, CUDA_R_32F);
  EXPECT_EQ(ir::record(ir::DType::bf16).cuda, CUDA_R_16BF);
  EXPECT_EQ(kLtCompute32F, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(kLtLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(kLtLayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(kLtDescriptionTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(kLtDescriptionTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(kLtTransposed, CUBLAS_OP_T);
  EXPECT_EQ(kLtPreferenceWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(kLtPreferenceReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_EQ(kLtPreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(kLtPreferenceAlignmentA + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(kLtConfigSplits, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  EXPECT_EQ(kLtConfigReduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  EXPECT_EQ(kLtReductionInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT_EQ(sizeof(LtAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(LtHeuristic), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(LtHeuristic, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
#else
  GTEST_SKIP() << "cublasLt.h is not here";
#endif
}

TEST(CublasLtTest, ProblemsTellApartWhatAlgorithmsDependOn) {
  const LtProblem problem = {.a = {.dtype = ir::DType::bf16, .rows = 64, .columns = 32, .leading = 64},
                             .b = {.dtype = ir::DType::bf16, .rows = 32, .columns = 16, .leading = 32},
                             .d = {.dtype = ir::DType::f32, .rows = 64, .columns = 16, .leading = 64},
                             .workspace_bytes = 1024};
  EXPECT_EQ(to_string(problem), "bf16 64x32/64*1+0@256 x bf16 32x16/32*1+0@256 -> f32 64x16/64*1+0@256 in 1024");
  LtProblem other = problem;
  other.accumulates = true;
  other.transpose_a = true;
  EXPECT_EQ(to_string(other), "bf16 64x32/64*1+0@256' x bf16 32x16/32*1+0@256 -> f32 64x16/64*1+0@256 added in 1024");
  EXPECT_EQ(problem.flops(), 2.0 * 64 * 16 * 32);
  EXPECT_EQ(other.k(), 64);
}

TEST(CublasLtTest, MatricesReachFromTheirFirstElementToTheirLast) {
  const LtMatrix matrix = {
      .dtype = ir::DType::bf16, .rows = 3, .columns = 2, .leading = 5, .batch = 4, .batch_stride = 20};
  EXPECT_EQ(matrix.bytes(), (3 * 20 + 5 + 3) * 2);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
