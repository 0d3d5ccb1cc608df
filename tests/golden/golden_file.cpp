// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/golden_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/base/file.h"

namespace megacpp {
namespace {

bool refresh = false;

// Line and text of the first difference, so that a failure does not print whole programs.
std::string first_difference(const std::string& got, const std::string& wanted) {
  size_t line = 1, start = 0;
  const auto [at, _] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  const auto position = static_cast<size_t>(at - got.begin());
  for (size_t i = 0; i < position; ++i)
    if (got[i] == '\n') ++line, start = i + 1;
  const auto line_of = [start](const std::string& text) {
    return start > text.size() ? "" : text.substr(start, text.find('\n', start) - start);
  };
  return "line " + std::to_string(line) + "\n  got:    " + line_of(got) + "\n  wanted: " + line_of(wanted);
}

}  // namespace

void expect_golden(const std::filesystem::path& file, const std::string& got) {
  if (refresh) {
    std::filesystem::create_directories(file.parent_path());
    base::write_file_atomically(file, got);
    return;
  }
  const std::string wanted = base::read_file(file);
  EXPECT_TRUE(got == wanted) << file.filename() << " changed at " << first_difference(got, wanted)
                             << "\nrun golden_test --refresh and review the difference";
}

}  // namespace megacpp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) megacpp::refresh = megacpp::refresh || std::string(argv[i]) == "--refresh";
  return RUN_ALL_TESTS();
}
