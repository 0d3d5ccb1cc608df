// SPDX-License-Identifier: Apache-2.0
// The machine instructions that C++ has no word for, one function each.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Nearest bf16, ties to even.
__device__ inline uint16_t to_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two of them in memory order: `low` stands first.
__device__ inline uint32_t to_bf16_pair(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// 2^x
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- Tensor cores. A warp calls these together. `row` is where this lane's row of 8 bf16 begins in shared memory:
// lanes 8 i to 8 i + 7 name the rows of matrix i of four.

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// ---- Copies to shared memory that go on beside the work

/// 16 bytes, or zeros where nothing is there.
__device__ inline void start_copy(void* shared, const void* global, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(is_there ? 16 : 0)
               : "memory");
}
/// Those that were started since the last call are a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Of this thread: all groups but the last.
__device__ inline void wait_for_earlier_copies() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
/// Of this thread; a barrier makes them everyone's.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace megacpp::runtime::cuda
