// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/blas_kernels.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace megacpp::runtime {
namespace {

using Names = std::vector<std::string>;

constexpr Vectors kAvx2 = {.avx2 = true}, kSkylake = {.avx2 = true, .avx512 = true},
                  kSapphireRapids = {.avx2 = true, .avx512 = true, .avx512_bf16 = true};

TEST(BlasKernelsTest, AProcessorNewerThanTheLibraryGetsTheWidestThatItsInstructionsAllow) {
  EXPECT_EQ(wider_kernels("Prescott", kSapphireRapids), (Names{"Cooperlake", "SkylakeX", "Haswell"}));
  EXPECT_EQ(wider_kernels("Prescott", kSkylake), (Names{"SkylakeX", "Haswell"}));
  EXPECT_EQ(wider_kernels("Barcelona", kAvx2), Names{"Haswell"});
}

TEST(BlasKernelsTest, KernelsThatTheLibraryKnowsForTheProcessorStay) {
  for (const char* known : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "neoversen1", "armv8"})
    EXPECT_EQ(wider_kernels(known, kSapphireRapids), Names{}) << known;
}

TEST(BlasKernelsTest, OldProcessorsKeepWhatTheyCanRun) {
  for (const char* old : {"Prescott", "Nehalem", "Sandybridge"}) EXPECT_EQ(wider_kernels(old, {}), Names{}) << old;
}

TEST(BlasKernelsTest, ThisProcessorMultipliesWithItsVectors) {
  const char* const wanted = std::getenv("OPENBLAS_CORETYPE");
  if (wanted != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE=" << wanted;
  const std::string kernels = blas_kernels();
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "no wide vectors: " << kernels;
  if (::dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init") == nullptr) GTEST_SKIP() << "built for one processor: " << kernels;
  for (const char* narrow : {"Prescott", "Barcelona", "Nehalem", "Sandybridge"}) EXPECT_NE(kernels, narrow);
#endif
  EXPECT_EQ(blas_kernels(), kernels);
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

}  // namespace
}  // namespace megacpp::runtime
