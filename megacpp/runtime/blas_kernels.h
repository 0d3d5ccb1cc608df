// SPDX-License-Identifier: Apache-2.0
// Which of OpenBLAS's kernels multiply matrices here. It picks them by the model number of the processor and, of one
// newer than itself, takes those of the oldest: SSE where there is AVX-512, a seventh of the rate. Then the processor's
// instructions decide. OPENBLAS_CORETYPE, where the user has set it, is left alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace megacpp::runtime {

/// Instructions of an x86 processor that kernels are written with, as far as the system lets programs use them.
struct Vectors {
  bool avx2 = false;         // and FMA
  bool avx512 = false;       // F, BW, CD, DQ, VL: what Skylake-X has
  bool avx512_bf16 = false;  // and these
};

/// The kernels to take in place of those that OpenBLAS took, by its names for them; nothing where these use the
/// processor's vectors.
std::optional<std::string> wider_kernels(std::string_view taken, const Vectors& vectors);

/// "Cooperlake", "neoversen1". The first call picks them, and is before the first product and the first thread that
/// multiplies (PackingBuffers).
std::string blas_kernels();

}  // namespace megacpp::runtime
