// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/plugins/plugin_places.h"

namespace megacpp::runtime::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriverFile = "libcuda.so.1";
constexpr const char* kInstallerFolder = "/usr/local/cuda/lib64";

std::vector<LibraryInfo> make_libraries() {
  return {{.kind = LibraryKind::cublaslt,
           .name = "cuBLASLt",
           .files = {"libcublasLt.so.13", "libcublasLt.so.12"},
           .wheels = {"nvidia/cu13/lib", "nvidia/cublas/lib"},
           .package = "nvidia-cublas",
           .needed_by = "products (dot)"},
          {.kind = LibraryKind::nvrtc,
           .name = "NVRTC",
           .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
           .wheels = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
           .companions = "libnvrtc-builtins.so",
           .package = "nvidia-cuda-nvrtc",
           .needed_by = "elementwise clusters (fused)"},
          {.kind = LibraryKind::nccl,
           .name = "NCCL",
           .files = {"libnccl.so.2"},
           .wheels = {"nvidia/nccl/lib"},
           .package = "nvidia-nccl-cu13",
           .needed_by = "collectives between processes"}};
}

// The file that a handle was loaded from; empty where the loader does not say.
fs::path file_of(void* handle) {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? fs::path(map->l_name) : fs::path();
}

// A library that loads others by their names alone finds those that are loaded already.
void load_companions(const LibraryInfo& info, const fs::path& file) {
  if (info.companions.empty() || !file.has_parent_path()) return;
  for (const fs::path& beside : base::list_folder(file.parent_path()))
    if (beside.filename().string().starts_with(info.companions)) ::dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const std::vector<LibraryInfo>& all_libraries() {
  static const std::vector<LibraryInfo> table = make_libraries();
  return table;
}

const LibraryInfo& info_of(LibraryKind kind) {
  const LibraryInfo& info = all_libraries()[static_cast<size_t>(kind)];
  MEGACPP_CHECK(info.kind == kind) << "libraries are not in the order of LibraryKind";
  return info;
}

Library::Library(LibraryKind kind, fs::path file, void* handle)
    : kind_(kind), file_(std::move(file)), handle_(handle) {}

void* Library::find_symbol(const char* name) const { return ::dlsym(handle_, name); }

void* Library::symbol(const char* name) const {
  void* const found = find_symbol(name);
  MEGACPP_REQUIRE(
      found != nullptr, E1509,
      {.where = file_.string(),
       .got = fmt::format("no function {}", name),
       .wanted = fmt::format("{} as docs/cuda.md lists its versions", info_of(kind_).name),
       .next = fmt::format("pip install -U {}, or put a newer one into LD_LIBRARY_PATH", info_of(kind_).package)});
  return found;
}

std::string version_of(const Library& library) {
  switch (library.kind()) {
    case LibraryKind::cublaslt: {
      const size_t number = library.function<size_t()>("cublasLtGetVersion")();
      return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    }
    case LibraryKind::nvrtc: {
      int major = 0, minor = 0;
      library.function<int(int*, int*)>("nvrtcVersion")(&major, &minor);
      return fmt::format("{}.{}", major, minor);
    }
    case LibraryKind::nccl: {
      int number = 0;
      library.function<int(int*)>("ncclGetVersion")(&number);
      return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    }
  }
  return "";
}

std::vector<fs::path> places_of(LibraryKind kind, const LibrarySearch& search) {
  const LibraryInfo& info = info_of(kind);
  std::vector<fs::path> places;
  if (!search.folder.empty()) {
    for (const std::string& file : info.files) places.push_back(search.folder / file);
    return places;
  }
  for (const std::string& file : info.files) places.emplace_back(file);
  for (const std::string& file : info.files) places.push_back(fs::path(kInstallerFolder) / file);
  for (const fs::path& packages : plugins::package_folders(plugins::Surroundings::current()))
    for (const std::string& wheel : info.wheels)
      for (const std::string& file : info.files)
        if (base::exists(packages / wheel / file)) places.push_back(packages / wheel / file);
  return places;
}

fs::path driver_place(const LibrarySearch& search) {
  return search.folder.empty() ? fs::path(kDriverFile) : search.folder / kDriverFile;
}

Library open_library(LibraryKind kind, const LibrarySearch& search) {
  const LibraryInfo& info = info_of(kind);
  std::vector<std::string> tried;
  for (const fs::path& place : places_of(kind, search)) {
    void* const handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      const fs::path file = file_of(handle);
      load_companions(info, file);
      return Library(kind, file.empty() ? place : file, handle);
    }
    tried.push_back(place.string());
  }
  base::raise(base::Code::E1509,
              {.where = info.name,
               .got = fmt::format("none that loads: tried {}", fmt::join(tried, ", ")),
               .wanted = fmt::format("{}, which {} needs", info.name, info.needed_by),
               .next = fmt::format("pip install {}, or name its folder in LD_LIBRARY_PATH", info.package)});
}

}  // namespace megacpp::runtime::cuda
