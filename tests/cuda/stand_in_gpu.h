// SPDX-License-Identifier: Apache-2.0
// A machine with a GPU of libraries that stand in for NVIDIA's: each object has its own, with nothing of another's
// state.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/gpu.h"
#include "tests/support/stand_in_cuda.h"
#include "tests/support/stand_in_nccl.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {

class StandInGpu {
 public:
  StandInGpu() {
    for (const char* name : {"libcuda.so.1", "libcublasLt.so.13", "libnvrtc.so.13"})
      std::filesystem::copy_file(std::filesystem::path(MEGACPP_STAND_IN_CUDA) / name, folder_ / name);
    void* const driver = ::dlopen((folder_ / "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
    MEGACPP_CHECK(driver != nullptr) << ::dlerror();
    machine_ = reinterpret_cast<stand_in_cuda::GetMachine*>(::dlsym(driver, "megacpp_stand_in_machine"))();
  }

  stand_in_cuda::Machine& machine() const { return *machine_; }
  /// By source text. Loads the compiler: before, it may be removed from the folder.
  const std::map<std::string, int>& compiles() const {
    void* const compiler = ::dlopen((folder_ / "libnvrtc.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    MEGACPP_CHECK(compiler != nullptr) << ::dlerror();
    return *reinterpret_cast<stand_in_cuda::GetCompiles*>(::dlsym(compiler, "megacpp_stand_in_compiles"))();
  }
  /// Puts NCCL beside the others, which a machine of one process needs not.
  stand_in_nccl::State& add_nccl() const {
    const std::filesystem::path file = folder_ / "libnccl.so.2";
    std::filesystem::copy_file(std::filesystem::path(MEGACPP_STAND_IN_CUDA) / "libnccl.so.2", file);
    void* const nccl = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    MEGACPP_CHECK(nccl != nullptr) << ::dlerror();
    return *reinterpret_cast<stand_in_nccl::GetState*>(::dlsym(nccl, "megacpp_stand_in_nccl"))();
  }
  stand_in_cuda::Products& products() const {
    void* const library = ::dlopen((folder_ / "libcublasLt.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    MEGACPP_CHECK(library != nullptr) << ::dlerror();
    return *reinterpret_cast<stand_in_cuda::GetProducts*>(::dlsym(library, "megacpp_stand_in_products"))();
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  runtime::cuda::LibrarySearch libraries() const { return {.folder = folder_.path()}; }

  /// Device code of every name.
  runtime::cuda::LoadParts parts() const { return {.libraries = libraries(), .find_cubin = any_cubin}; }

  std::shared_ptr<runtime::cuda::Gpu> open(int ordinal = 0) const {
    const auto place = runtime::cuda::driver_place(libraries());
    const runtime::cuda::Driver& driver = runtime::cuda::open_driver(place);
    const runtime::cuda::Gpu::Options options{.ordinal = ordinal, .libraries = libraries(), .find_cubin = any_cubin};
    return std::make_shared<runtime::cuda::Gpu>(driver, options);
  }

 private:
  static std::span<const std::byte> any_cubin(std::string_view) {
    static const std::array<std::byte, 4> code = {};
    return code;
  }

  TemporaryFolder folder_;
  stand_in_cuda::Machine* machine_ = nullptr;
};

}  // namespace megacpp::testing_support
