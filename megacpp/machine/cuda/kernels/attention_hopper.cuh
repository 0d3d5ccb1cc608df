// SPDX-License-Identifier: Apache-2.0
// Hopper's tensor cores, copies and barriers as functions: what attention_wgmma.cu, attention_grad_wgmma.cu and those
// of ssd by tensor cores are written in. Addresses of shared memory are 32 bits.
// Matrices in shared memory are tiles of rows of 64 bf16 (128 bytes), eight rows to an atom of 1024 bytes, in which
// 16-byte piece c of row r stands at c ^ (r % 8): what the copies of a tensor map with a swizzle of 128 bytes write.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace megacpp::runtime::cuda::hopper {

inline constexpr int kWarpgroup = 128;  // threads
inline constexpr int kRowBytes = 128;   // of a tile
inline constexpr int kAtomBytes = 8 * kRowBytes;

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Dynamic shared memory: it begins at a multiple of an atom.
__device__ inline uint8_t* dynamic_shared() {
  extern __shared__ __align__(kAtomBytes) uint8_t memory[];
  return memory;
}

/// Of the thread's warp or warpgroup: the same for all its threads, and known to be.
__device__ inline int uniform(int value) { return __shfl_sync(0xffffffffU, value, 0); }

template <int registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// ---- Barriers ----

/// Blocks until `threads` threads have come to the barrier `id`, by this or by arrive_at_barrier.
__device__ inline void wait_at_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void arrive_at_barrier(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// A barrier in shared memory whose phases alternate between 0 and 1.
struct Barrier {
  uint64_t state;
};

__device__ inline void init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
/// Makes inits visible to copies.
__device__ inline void fence_inits() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
/// Arrives, and has the phase wait for so many bytes of copies.
__device__ inline void arrive_expecting(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
__device__ inline bool is_complete(Barrier& barrier, uint32_t phase) {
  uint32_t complete;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(complete)
      : "r"(shared_address(&barrier)), "r"(phase)
      : "memory");
  return complete != 0;
}
__device__ inline void wait(Barrier& barrier, uint32_t phase) {
  while (!is_complete(barrier, phase)) {
  }
}

// ---- Copies ----

/// A box at `at` (innermost dimension first) of the tensor to shared memory.
struct BoxOrigin {
  int32_t at[5];
};
__device__ inline void copy_box(uint32_t to, const void* map, const BoxOrigin& from, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(&barrier)), "r"(from.at[0]), "r"(from.at[1]), "r"(from.at[2]), "r"(from.at[3]),
      "r"(from.at[4])
      : "memory");
}
/// Consecutive bytes, a multiple of 16 on both sides.
__device__ inline void copy_bytes(uint32_t to, const void* from, int bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
__device__ inline void write_bytes(float* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
}
__device__ inline void add_floats(float* to, uint32_t from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
      "r"(from), "r"(bytes)
      : "memory");
}
__device__ inline void commit_writes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until shared memory was read, or until all is written.
__device__ inline void wait_for_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void wait_for_writes() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Between ordinary accesses of memory and those of copies and tensor cores.
__device__ inline void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

/// A counter that orders what blocks of threads write to global memory.
__device__ inline void wait_for_count(const int32_t* counter, int32_t value) {
  int32_t count;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                 : "=r"(count)
                 : "l"(__cvta_generic_to_global(counter))
                 : "memory");
  } while (count != value);
}
__device__ inline void count_up(int32_t* counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(__cvta_generic_to_global(counter)) : "memory");
}

/// Four 8 x 8 matrices: lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void write_matrices(uint32_t row, const uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ inline uint4 read_16_bytes(uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

// ---- Arithmetic ----

__device__ inline float exp2(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
/// `low` in the lower half.
__device__ inline uint32_t pack(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// ---- Products of a warpgroup ----
// Sums of 64 x n: thread t has rows t / 32 * 16 + t % 32 / 4 (+ 8) and columns 8 j + t % 4 * 2 (+ 1): sums[4 j + 0, 1]
// of the first row, sums[4 j + 2, 3] of the second. A register operand of 64 x 16 has two columns in a word, four
// words: columns 0 .. 7 of the first row, of the second, columns 8 .. 15 of the first row, of the second.

/// How a matrix operand stands in its tile: rows of the tile run along the summed dimension or across it.
enum class Along : int { summed = 0, across = 1 };

/// Of a tile, or of a part that begins at a multiple of 32 bytes inside its first rows or at a multiple of an atom.
__device__ inline uint64_t matrix(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kAtomStride = uint64_t{kAtomBytes / 16} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;  // of the dimension that is one atom wide
  return kSwizzle128 | kAtomStride | kUnused | ((address & 0x3ffffU) >> 4);
}

/// Before the first product, and after registers of an operand were written.
__device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups_left>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}
/// Keeps the compiler from moving accesses of the sums over a wait.
template <int n>
__device__ inline void pin(float (&sums)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define MEGACPP_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define MEGACPP_SUMS_16(i) MEGACPP_SUMS_4(i), MEGACPP_SUMS_4((i) + 4), MEGACPP_SUMS_4((i) + 8), MEGACPP_SUMS_4((i) + 12)

/// sums [+]= a . b, of 64 x 16 and 16 x n, n = 2 x number of sums.
template <Along a_rows, Along b_rows>
__device__ inline void multiply(float (&sums)[32], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, %35, %36;\n}"
      : MEGACPP_SUMS_16(0), MEGACPP_SUMS_16(16)
      : "l"(a), "l"(b), "r"(add ? 1 : 0), "n"(static_cast<int>(a_rows)), "n"(static_cast<int>(b_rows)));
}
template <Along a_rows, Along b_rows>
__device__ inline void multiply(float (&sums)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, %67, %68;\n}"
      : MEGACPP_SUMS_16(0), MEGACPP_SUMS_16(16), MEGACPP_SUMS_16(32), MEGACPP_SUMS_16(48)
      : "l"(a), "l"(b), "r"(add ? 1 : 0), "n"(static_cast<int>(a_rows)), "n"(static_cast<int>(b_rows)));
}

/// sums += a . b with a in registers.
template <Along b_rows>
__device__ inline void multiply_add(float (&sums)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %37;\n}"
      : MEGACPP_SUMS_16(0), MEGACPP_SUMS_16(16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(b_rows)));
}
#undef MEGACPP_SUMS_16
#undef MEGACPP_SUMS_4

}  // namespace megacpp::runtime::cuda::hopper
