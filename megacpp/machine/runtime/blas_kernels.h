// SPDX-License-Identifier: Apache-2.0
// Which of OpenBLAS's kernels multiply matrices here. It picks them by the model number of the processor and, of one
// newer than itself, takes those of the oldest: SSE where there is AVX-512, a seventh of the rate. Then the processor's
// instructions decide. OPENBLAS_CORETYPE, where the user has set it, is left alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megacpp::runtime {

/// Instructions of an x86 processor that kernels are written with, as far as the system lets programs use them.
struct Vectors {
  bool avx2 = false;         // and FMA
  bool avx512 = false;       // F, BW, CD, DQ, VL: what Skylake-X has
  bool avx512_bf16 = false;  // and these
};

/// The kernels to take in place of those that OpenBLAS took, by its names for them, best first: not every version has
/// all. None where it took such as use the processor's vectors.
std::vector<std::string> wider_kernels(std::string_view taken, const Vectors& vectors);

/// "Cooperlake", "neoversen1". The first call picks them, and stands before the first product; it sets a variable of
/// the environment for a moment, so programs make it before they start threads.
std::string blas_kernels();

}  // namespace megacpp::runtime
