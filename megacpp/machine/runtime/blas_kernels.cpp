// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/blas_kernels.h"

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

bool is_narrow(std::string_view kernels) { return std::ranges::find(kNarrow, kernels) != kNarrow.end(); }

// The library reads the variable where it picks its kernels, which it does once more when told so. It has these two
// functions where it was built for several processors, in none of its headers.
void pick_again(const std::vector<std::string>& wider) {
  const auto find = [](const char* name) { return reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, name)); };
  const auto forget = find("gotoblas_dynamic_quit"), pick = find("gotoblas_dynamic_init");
  if (forget == nullptr || pick == nullptr) return;
  for (const std::string& kernels : wider) {
    ::setenv(kVariable, kernels.c_str(), 1);
    forget();
    pick();
    if (!is_narrow(::openblas_get_corename())) break;
  }
  ::unsetenv(kVariable);  // programs that we start see what the user set
}

std::string pick_kernels() {
  if (std::getenv(kVariable) == nullptr) {
    const std::vector<std::string> wider = wider_kernels(::openblas_get_corename(), vectors_here());
    if (!wider.empty()) pick_again(wider);
  }
  return ::openblas_get_corename();
}

}  // namespace

std::vector<std::string> wider_kernels(std::string_view taken, const Vectors& vectors) {
  std::vector<std::string> wider;
  if (!vectors.avx2 || !is_narrow(taken)) return wider;
  if (vectors.avx512_bf16) wider.emplace_back("Cooperlake");
  if (vectors.avx512) wider.emplace_back("SkylakeX");
  wider.emplace_back("Haswell");
  return wider;
}

std::string blas_kernels() {
  static const std::string kPicked = pick_kernels();
  return kPicked;
}

}  // namespace megacpp::runtime
