// SPDX-License-Identifier: Apache-2.0
// Our own declarations of the driver against its header, where that is at hand: every function takes as many arguments,
// each of the same size and kind, and what is handed over in memory has the same layout.
#include <gtest/gtest.h>

#ifdef MEGACPP_HAS_CUDA_HEADER
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/tensor_map.h"

namespace megacpp::runtime::cuda {
namespace {

template <typename Ours, typename Theirs>
constexpr bool is_alike = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <typename Ours, typename Theirs>
struct Compare;
template <typename... Ours, typename... Theirs>
struct Compare<Entry<Ours...>, CUresult(Theirs...)> {
  static constexpr bool kAlike = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs))
      return (is_alike<Ours, Theirs> && ...);
    else
      return false;
  }();
};

#define MEGACPP_CUDA_ENTRY(name, symbol, ...) \
  static_assert(Compare<Entry<__VA_ARGS__>, decltype(symbol)>::kAlike, #name " is declared otherwise");
#include "megacpp/machine/cuda/driver_list.inc"
#undef MEGACPP_CUDA_ENTRY

static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(static_cast<int>(MapType::u8) == CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(static_cast<int>(MapType::i32) == CU_TENSOR_MAP_DATA_TYPE_INT32);
static_assert(static_cast<int>(MapType::f32) == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(static_cast<int>(MapType::bf16) == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(static_cast<int>(Swizzle::bytes_128) == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kPeerAccessEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);

TEST(CudaDriverHeaderTest, OurDeclarationsAreThoseOfTheHeader) {
  SUCCEED() << "compared while this was compiled, with the header of CUDA " << CUDA_VERSION;
}

}  // namespace
}  // namespace megacpp::runtime::cuda

#else

TEST(CudaDriverHeaderTest, OurDeclarationsAreThoseOfTheHeader) { GTEST_SKIP() << "no cuda.h on this machine"; }

#endif
