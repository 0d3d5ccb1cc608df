// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/blas_kernels.h"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace megacpp::runtime {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";
// What it falls back to: of processors it does not know, and of systems without wide registers.
constexpr std::array<std::string_view, 4> kNarrow = {"Prescott", "Barcelona", "Nehalem", "Sandybridge"};

Vectors vectors_here() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return {.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = avx512,
          .avx512_bf16 = avx512 && __builtin_cpu_supports("avx512bf16")};
#else
  return {};
#endif
}

// The library reads the variable where it picks its kernels, which it does once more when told so. It has these two
// functions where it was built for several processors, in none of its headers.
void pick(const std::string& kernels) {
  const auto find = [](const char* name) { return reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, name)); };
  const auto forget = find("gotoblas_dynamic_quit"), pick_again = find("gotoblas_dynamic_init");
  if (forget == nullptr || pick_again == nullptr) return;
  ::setenv(kVariable, kernels.c_str(), 1);
  forget();
  pick_again();
  ::unsetenv(kVariable);  // programs that we start see what the user set
}

bool pick_wider() {
  if (std::getenv(kVariable) != nullptr) return false;
  const std::optional<std::string> wider = wider_kernels(::openblas_get_corename(), vectors_here());
  if (wider) pick(*wider);
  return wider.has_value();
}

}  // namespace

std::optional<std::string> wider_kernels(std::string_view taken, const Vectors& vectors) {
  if (!vectors.avx2 || std::ranges::find(kNarrow, taken) == kNarrow.end()) return std::nullopt;
  if (vectors.avx512_bf16) return "Cooperlake";
  return vectors.avx512 ? "SkylakeX" : "Haswell";
}

std::string blas_kernels() {
  [[maybe_unused]] static const bool is_picked = pick_wider();
  return ::openblas_get_corename();
}

}  // namespace megacpp::runtime
