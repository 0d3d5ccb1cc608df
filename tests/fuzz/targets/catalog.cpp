// SPDX-License-Identifier: Apache-2.0
// A sound file with bytes changed, pages exchanged and its end cut off.
#include <algorithm>

#include "tests/fuzz/catalog_check.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
namespace {

constexpr size_t kPage = 4096;

size_t any_place(const std::string& content, Choices& choices) {
  if (choices.one_in(2)) return choices.below(100);  // the file's header
  const size_t page = choices.below(content.size() / kPage) * kPage;
  return page + (choices.one_in(2) ? choices.below(kPage) : choices.below(16));  // a page has a header too
}

void change_file(std::string& content, Choices& choices) {
  switch (choices.below(8)) {
    case 0:
      content.resize(std::max<size_t>(kPage, choices.below(content.size() / 64) * 64));
      break;
    case 1: {
      const size_t from = choices.below(content.size() / kPage), to = choices.below(content.size() / kPage);
      std::copy_n(content.begin() + static_cast<int64_t>(from * kPage), kPage,
                  content.begin() + static_cast<int64_t>(to * kPage));
      break;
    }
    default:
      content[any_place(content, choices)] = static_cast<char>(choices.byte());
  }
}

void use_changed_file(Bytes input) {
  static const ScratchFile scratch("catalog.sqlite");
  Choices choices(input);
  std::string content = sound_catalog();
  for (size_t changes = 1 + choices.below(16); changes > 0 && !choices.is_empty(); --changes)
    change_file(content, choices);
  for (const char* suffix : {"-wal", "-shm", "-journal"}) std::filesystem::remove(scratch.path().string() + suffix);
  scratch.write(content);
  use_catalog(scratch.path());
}

}  // namespace

Target catalog_target() {
  return {.name = "catalog", .subject = "catalog files as bytes", .weight = 3, .run = use_changed_file};
}

}  // namespace megacpp::fuzz
