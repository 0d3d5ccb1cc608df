// SPDX-License-Identifier: Apache-2.0
// What sm_90a offers to matrix products, one instruction each: barriers that count bytes, tiles copied by the tensor
// memory unit to all blocks of a cluster, and products of a warpgroup.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"

namespace megacpp::runtime::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- Barriers in shared memory ----

__device__ __forceinline__ void init_barrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives, and lets the phase wait for so many bytes.
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// At the same barrier of a block of the cluster.
__device__ __forceinline__ void arrive_at(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// ---- Tiles from global memory ----

struct TileCopy {
  const TileMap* map;
  uint64_t* barrier;
  void* to;
};

__device__ __forceinline__ void prefetch_map(const TileMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void copy_tile(const TileCopy& copy, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address(copy.to)),
      "l"(copy.map), "r"(shared_address(copy.barrier)), "r"(column), "r"(row)
      : "memory");
}

/// To the same place of every block of the cluster, whose barriers count it.
__device__ __forceinline__ void copy_tile_to_all(const TileCopy& copy, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(copy.to)),
      "l"(copy.map), "r"(shared_address(copy.barrier)), "r"(column), "r"(row),
      "h"(static_cast<uint16_t>((1 << kClusterBlocks) - 1))
      : "memory");
}

__device__ __forceinline__ void copy_tile_to_all(const TileCopy& copy, int column, int row, int matrix) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(copy.to)),
      "l"(copy.map), "r"(shared_address(copy.barrier)), "r"(column), "r"(row), "r"(matrix),
      "h"(static_cast<uint16_t>((1 << kClusterBlocks) - 1))
      : "memory");
}

// ---- Tiles to global memory ----

/// Of the group that this thread commits next. What is outside the tensor is left out.
__device__ __forceinline__ void store_tile(const TileMap* map, const void* from, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(shared_address(from)), "r"(column), "r"(row)
               : "memory");
}

__device__ __forceinline__ void commit_tile_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Until shared memory has been read by all but so many of this thread's last groups.
template <int kLeft>
__device__ __forceinline__ void wait_tile_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// ---- Products of a warpgroup ----

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A tile of rows of 128 bytes whose 16-byte pieces are permuted (SWIZZLE_128B), as the tensor memory unit leaves it.
/// Of one whose rows are of the contracted dimension, `block_bytes` is the distance to the next 64 columns.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address, uint32_t block_bytes) {
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | static_cast<uint64_t>(block_bytes >> 4) << 16 |
         static_cast<uint64_t>(1024 >> 4) << 32 | uint64_t{1} << 62;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Until at most so many committed groups are under way.
template <int kLeft>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

/// What was written to shared memory by stores is seen by products and tile copies after it.
__device__ __forceinline__ void publish_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// s[64, 256] += a[64, 16] * b[16, 256]. A side is transposed whose tile has rows of the contracted dimension.
template <bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void multiply_64x256x16(float (&s)[128], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, 1, 1, 1, %130, %131;\n"
      : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]),
        "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),
        "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),
        "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]),
        "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]),
        "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),
        "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]),
        "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]), "+f"(s[63]), "+f"(s[64]),
        "+f"(s[65]), "+f"(s[66]), "+f"(s[67]), "+f"(s[68]), "+f"(s[69]), "+f"(s[70]), "+f"(s[71]), "+f"(s[72]),
        "+f"(s[73]), "+f"(s[74]), "+f"(s[75]), "+f"(s[76]), "+f"(s[77]), "+f"(s[78]), "+f"(s[79]), "+f"(s[80]),
        "+f"(s[81]), "+f"(s[82]), "+f"(s[83]), "+f"(s[84]), "+f"(s[85]), "+f"(s[86]), "+f"(s[87]), "+f"(s[88]),
        "+f"(s[89]), "+f"(s[90]), "+f"(s[91]), "+f"(s[92]), "+f"(s[93]), "+f"(s[94]), "+f"(s[95]), "+f"(s[96]),
        "+f"(s[97]), "+f"(s[98]), "+f"(s[99]), "+f"(s[100]), "+f"(s[101]), "+f"(s[102]), "+f"(s[103]), "+f"(s[104]),
        "+f"(s[105]), "+f"(s[106]), "+f"(s[107]), "+f"(s[108]), "+f"(s[109]), "+f"(s[110]), "+f"(s[111]), "+f"(s[112]),
        "+f"(s[113]), "+f"(s[114]), "+f"(s[115]), "+f"(s[116]), "+f"(s[117]), "+f"(s[118]), "+f"(s[119]), "+f"(s[120]),
        "+f"(s[121]), "+f"(s[122]), "+f"(s[123]), "+f"(s[124]), "+f"(s[125]), "+f"(s[126]), "+f"(s[127])
      : "l"(a), "l"(b), "n"(kTransposeA ? 1 : 0), "n"(kTransposeB ? 1 : 0));
}

}  // namespace megacpp::runtime::cuda
