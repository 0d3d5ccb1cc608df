// SPDX-License-Identifier: Apache-2.0
// Numbers of cublasLt.h that cublaslt.cpp hands to the library; its test compares them where that header is.
#pragma once

namespace megacpp::runtime::cuda {

enum LtNumber : int {
  kLtF32 = 0,                     // CUDA_R_32F
  kLtCompute32F = 68,             // CUBLAS_COMPUTE_32F: products of f32 are not rounded to less
  kLtLayoutBatchCount = 5,        // int32_t
  kLtLayoutBatchStride = 6,       // int64_t
  kLtDescriptionTransposeA = 3,   // int32_t
  kLtDescriptionTransposeB = 4,   // int32_t
  kLtTransposed = 1,              // CUBLAS_OP_T
  kLtPreferenceWorkspace = 1,     // uint64_t
  kLtPreferenceReductions = 3,    // uint32_t
  kLtPreferenceAlignmentA = 5,    // uint32_t; then B, C, D
  kLtConfigSplits = 2,            // int32_t
  kLtConfigReduction = 3,         // uint32_t
  kLtReductionInComputeType = 2,  // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts are kept, and added in order
};

}  // namespace megacpp::runtime::cuda
