// SPDX-License-Identifier: Apache-2.0
// The libraries that the program is linked with, by what each says of itself at run time; those that say nothing, by
// the name of the file that was loaded. What is compiled in from headers is part of the program's own version.
#include <archive.h>
#include <cblas.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sqlite3.h>
#include <utf8proc.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "megacpp/machine/runtime/blas_kernels.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

namespace fs = std::filesystem;

std::string word(std::string_view text, size_t number) {
  for (; number > 0 && !text.empty(); --number) {
    const size_t space = text.find(' ');
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return std::string(text.substr(0, text.find(' ')));
}

/// "0.3.21 neoversen1": its kernels go by the core it finds, and they round differently.
std::string openblas_version() {
  return fmt::format("{} {}", word(::openblas_get_config(), 1), runtime::blas_kernels());
}

std::string pcre2_version() {
  std::array<char, 64> text = {};
  return ::pcre2_config(PCRE2_CONFIG_VERSION, text.data()) > 0 ? word(text.data(), 0) : kNone;
}

std::string xxhash_version() {
  const unsigned number = XXH_versionNumber();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

struct LoadedFile {
  std::string_view prefix;  // of its name: "libfmt.so."
  std::string path = {};
};

/// "9.1.0" of libfmt.so.9, which is a link to libfmt.so.9.1.0.
std::string loaded_version(std::string_view prefix) {
  LoadedFile wanted{.prefix = prefix};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        LoadedFile& file = *static_cast<LoadedFile*>(data);
        const std::string_view path = info->dlpi_name;
        const size_t slash = path.rfind('/');
        if (!path.substr(slash == std::string_view::npos ? 0 : slash + 1).starts_with(file.prefix)) return 0;
        file.path = path;
        return 1;
      },
      &wanted);
  if (wanted.path.empty()) return kNone;
  std::error_code error;
  const fs::path whole = fs::canonical(wanted.path, error);
  const std::string name = (error ? fs::path(wanted.path) : whole).filename().string();
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

struct Library {
  std::string name;
  std::string package;  // that brings it on Debian and Ubuntu, without the version in its name
  std::function<std::string()> version;
};

std::vector<Library> libraries() {
  const auto by_file = [](const char* prefix) { return [prefix] { return loaded_version(prefix); }; };
  return {{"archive", "libarchive", [] { return word(::archive_version_string(), 1); }},
          {"fmt", "libfmt", by_file("libfmt.so.")},
          {"glibc", "libc6", [] { return std::string(::gnu_get_libc_version()); }},
          {"hwy", "libhwy", by_file("libhwy.so.")},
          {"libstdc++", "libstdc++6", by_file("libstdc++.so.")},
          {"openblas", "libopenblas0", openblas_version},
          {"pcre2", "libpcre2-8", pcre2_version},
          {"sentencepiece", "libsentencepiece", by_file("libsentencepiece.so.")},
          {"sqlite", "libsqlite3", [] { return std::string(::sqlite3_libversion()); }},
          {"utf8proc", "libutf8proc", [] { return std::string(::utf8proc_version()); }},
          {"xxhash", "libxxhash-dev", xxhash_version},
          {"yaml-cpp", "libyaml-cpp", by_file("libyaml-cpp.so.")}};
}

}  // namespace

std::vector<Probe> libraries_probes() {
  std::vector<Probe> probes;
  for (const Library& library : libraries())
    probes.push_back({.name = library.name,
                      .group = "libraries",
                      .pins = Pins::at_launch,
                      .ask = [version = library.version](const Subject&) { return version(); },
                      .fix =
                          [package = library.package](const std::string& documented) {
                            return fmt::format("bring the package {} back to {} and hold it there (apt-mark hold)",
                                               package, documented);
                          }});
  return probes;
}

}  // namespace megacpp::lineage
