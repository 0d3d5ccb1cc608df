// SPDX-License-Identifier: Apache-2.0
// The compiler's stage dumps of the tiny recipes, cut down to one tile of blocks, against the files in
// tests/golden/stages. golden_test --refresh rewrites them; the diff is then reviewed like code.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/base/file.h"
#include "megacpp/compile/compile.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp {
namespace {

bool refresh = false;

namespace fs = std::filesystem;
const fs::path kRoot = MEGACPP_SOURCE_DIR;

struct Case {
  std::string recipe;
  std::vector<std::string> overrides;
  std::vector<std::string> stages;  // those kept: the larger program's middle stages would be half a megabyte
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.recipe; }

std::vector<Case> all_cases() {
  return {{"nam52-tiny",
           {"model.depth=2"},
           {"01-model.ir", "02-autodiff.ir", "04-decompose.ir", "05-fold.ir", "07-fuse.ir", "08-order.ir",
            "10-memory.txt"}},
          {"nam56r-tiny", {"model.pattern=AEMR", "model.depth=4"}, {"01-model.ir", "08-order.ir", "10-memory.txt"}}};
}

// Line and text of the first difference, so that a failure does not print whole programs.
std::string first_difference(const std::string& got, const std::string& wanted) {
  size_t line = 1, start = 0;
  const auto [at, _] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  const auto position = static_cast<size_t>(at - got.begin());
  for (size_t i = 0; i < position; ++i)
    if (got[i] == '\n') ++line, start = i + 1;
  const auto line_of = [start](const std::string& text) { return text.substr(start, text.find('\n', start) - start); };
  return "line " + std::to_string(line) + "\n  got:    " + line_of(got) + "\n  wanted: " + line_of(wanted);
}

class StageDumpsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Recipes, StageDumpsTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.recipe;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(StageDumpsTest, EqualTheGoldenFiles) {
  const Case& c = GetParam();
  const fs::path dumped = fs::temp_directory_path() / ("megacpp_golden_" + c.recipe + "_" + std::to_string(getpid()));
  fs::create_directories(dumped);
  const recipe::Recipe recipe = recipe::load(kRoot / "recipes" / (c.recipe + ".yaml"), c.overrides);
  compile::compile_training(recipe, runtime::cpu::cpu_target(2), compile::Dump{dumped});
  const fs::path golden = kRoot / "tests" / "golden" / "stages" / c.recipe;
  for (const std::string& stage : c.stages) {
    const std::string got = base::read_file(dumped / stage);
    if (refresh) {
      fs::create_directories(golden);
      base::write_file_atomically(golden / stage, got);
      continue;
    }
    const std::string wanted = base::read_file(golden / stage);
    EXPECT_TRUE(got == wanted) << stage << " changed at " << first_difference(got, wanted)
                               << "\nrun golden_test --refresh and review the difference";
  }
  fs::remove_all(dumped);
}

}  // namespace
}  // namespace megacpp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) megacpp::refresh = megacpp::refresh || std::string(argv[i]) == "--refresh";
  return RUN_ALL_TESTS();
}
