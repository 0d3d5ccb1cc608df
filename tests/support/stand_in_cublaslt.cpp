// SPDX-License-Identifier: Apache-2.0
// cuBLASLt where there is none: it takes every product and records the bytes of its matrices with the driver that
// stands in beside it. See stand_in_cuda.h.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <filesystem>

#include "tests/support/stand_in_cuda.h"

namespace {

using namespace megacpp::stand_in_cuda;

constexpr int kF32 = 0, kBatchCount = 5, kBatchStride = 6, kNotSupported = 15;  // numbers of cublasLt.h

Products products;

struct Layout {
  size_t element_bytes = 4;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;

  size_t bytes() const {
    if (rows == 0 || columns == 0 || batch == 0) return 0;
    const uint64_t elements = static_cast<uint64_t>(batch - 1) * static_cast<uint64_t>(batch_stride) +
                              (columns - 1) * static_cast<uint64_t>(leading) + rows;
    return elements * element_bytes;
  }
};

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

/// Of the device that was current when it was made.
struct Handle {
  int device;
};

/// The driver that stands in beside this library.
void* driver_beside() {
  static void* const driver = [] {
    Dl_info own = {};
    dladdr(reinterpret_cast<void*>(&driver_beside), &own);
    return dlopen((std::filesystem::path(own.dli_fname).parent_path() / "libcuda.so.1").c_str(), RTLD_NOW);
  }();
  return driver;
}

template <typename Signature>
Signature* of_driver(const char* name) {
  return reinterpret_cast<Signature*>(dlsym(driver_beside(), name));
}

void require_device_of(const void* handle) {
  of_driver<RequireCurrent>("megacpp_stand_in_require_current")("a handle of cuBLASLt",
                                                                static_cast<const Handle*>(handle)->device);
}

Range range_of(const void* address, const void* layout) {
  return {reinterpret_cast<uint64_t>(address), static_cast<const Layout*>(layout)->bytes()};
}

}  // namespace

extern "C" {

Products* megacpp_stand_in_products() { return &products; }

size_t cublasLtGetVersion() { return 130100; }
int cublasLtCreate(void** handle) {
  *handle = new Handle{of_driver<GetCurrentDevice>("megacpp_stand_in_current_device")()};
  return 0;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
int cublasLtMatmulDescCreate(void** description, int, int) {
  *description = new int(0);
  return 0;
}
int cublasLtMatmulDescDestroy(void* description) {
  delete static_cast<int*>(description);
  return 0;
}
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** preference) { return cublasLtMatmulDescCreate(preference, 0, 0); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return cublasLtMatmulDescDestroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }

int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new Layout{.element_bytes = type == kF32 ? 4U : 2U, .rows = rows, .columns = columns, .leading = leading};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  auto* const own = static_cast<Layout*>(layout);
  if (attribute == kBatchCount) std::memcpy(&own->batch, value, bytes);
  if (attribute == kBatchStride) std::memcpy(&own->batch_stride, value, bytes);
  return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, void*, void*, void*, void*, void*, void*, int, Heuristic* results,
                                   int* count) {
  require_device_of(handle);
  *results = {};
  results->algorithm[0] = products.word;
  *count = 1;
  return 0;
}
int cublasLtMatmulAlgoCheck(void* handle, void*, void*, void*, void*, void*, const void* algorithm, Heuristic* result) {
  require_device_of(handle);
  uint64_t word = 0;
  std::memcpy(&word, algorithm, sizeof word);
  *result = {};
  return word == products.refused ? kNotSupported : 0;
}
/// A sum in one piece, whatever is asked: 1 split, reduction scheme 0.
int cublasLtMatmulAlgoConfigGetAttribute(const void*, int attribute, void* value, size_t bytes, size_t* written) {
  const int64_t answer = attribute == 2 ? 1 : 0;
  std::memcpy(value, &answer, bytes);
  *written = bytes;
  return 0;
}

int cublasLtMatmul(void* handle, void*, const void*, const void* a, void* a_layout, const void* b, void* b_layout,
                   const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const void*,
                   void* workspace, size_t workspace_bytes, void* stream) {
  require_device_of(handle);
  Operation product{.kind = Kind::product, .name = "cublasLtMatmul"};
  product.ranges = {range_of(a, a_layout), range_of(b, b_layout), range_of(d, d_layout)};
  float scale = 0;
  std::memcpy(&scale, beta, sizeof scale);
  if (scale != 0) product.ranges.push_back(range_of(c, c_layout));
  if (workspace_bytes > 0) product.ranges.push_back({reinterpret_cast<uint64_t>(workspace), workspace_bytes});
  of_driver<Enqueue>("megacpp_stand_in_enqueue")(stream, product);
  return 0;
}

}  // extern "C"
