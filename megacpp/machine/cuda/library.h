// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries, found and loaded at run time, each when something first needs it. One record per library says
// under which names it is looked for and which versions serve.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::runtime::cuda {

enum class LibraryKind { cublaslt, nvrtc, nccl };

struct LibraryInfo {
  LibraryKind kind;
  std::string name;                 // "cuBLASLt"
  std::vector<std::string> files;   // "libcublasLt.so.13": names of the loader, preferred first
  std::vector<std::string> wheels;  // folders under site-packages that hold them
  std::string companions = {};      // prefix of files beside it that it loads by their names: "libnvrtc-builtins"
  std::string package;              // that pip installs it by
  std::string needed_by;            // what does not run without it
};
const std::vector<LibraryInfo>& all_libraries();
const LibraryInfo& info_of(LibraryKind kind);

/// A loaded library, for the life of the process. Copies are the same library.
class Library {
 public:
  Library(LibraryKind kind, std::filesystem::path file, void* handle);

  LibraryKind kind() const { return kind_; }
  /// As the loader resolved it.
  const std::filesystem::path& file() const { return file_; }

  /// A function by its type: `library.function<int(size_t)>("name")`. E1509 where the library has none of that name.
  template <typename Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(symbol(name));
  }
  /// Null where it has none: functions of newer versions.
  void* find_symbol(const char* name) const;

 private:
  void* symbol(const char* name) const;

  LibraryKind kind_;
  std::filesystem::path file_;
  void* handle_;
};

/// "13.1.0", as the library says it.
std::string version_of(const Library& library);

/// Where libraries are looked for: a folder that has all of them, where one is given; else the loader's own places
/// (LD_LIBRARY_PATH among them), those of CUDA's installer, and the packages of Python installations.
struct LibrarySearch {
  std::filesystem::path folder = {};
};

/// Files and names to try, best first.
std::vector<std::filesystem::path> places_of(LibraryKind kind, const LibrarySearch& search);
/// The driver's library, "libcuda.so.1": in the folder, or where the loader finds it.
std::filesystem::path driver_place(const LibrarySearch& search);

/// The first that loads. E1509 with the places tried and what installs it.
Library open_library(LibraryKind kind, const LibrarySearch& search);

}  // namespace megacpp::runtime::cuda
