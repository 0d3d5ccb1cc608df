// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/wheel.h"

#include "tests/fuzz/oracle.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
namespace {

constexpr int64_t kLargestEntry = 1 << 16;  // bytes, so that an archive of a few bytes cannot fill a disk

void unpack(Bytes input) {
  static const ScratchFile scratch("input.whl");
  const std::filesystem::path folder = scratch.folder() / "unpacked";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  scratch.write(as_text(input));
  runtime::plugins::unpack_wheel({.wheel = scratch.path(),
                                  .entries = {"plugin/plugin.so", "plugin/include/header.h"},
                                  .folder = folder,
                                  .largest_entry = kLargestEntry});
  for (const char* entry : {"plugin/plugin.so", "plugin/include/header.h"})
    require(std::filesystem::file_size(folder / entry) <= kLargestEntry, "an entry is a file of an allowed size");
}

}  // namespace

Target wheel_target() { return {.name = "wheel", .subject = "wheels of plugins", .weight = 20, .run = unpack}; }

}  // namespace megacpp::fuzz
