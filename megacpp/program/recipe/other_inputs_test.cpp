// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/other_inputs.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::recipe {
namespace {

using base::Code;
using testing_support::has;
using testing_support::problem_of;

TEST(OtherInputsTest, AHuggingFaceModelIsNamedWithTheCommandToTake) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path config = folder / "config.json";
  base::write_file_atomically(config, R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64})");
  const base::Problem of_folder = problem_of(Code::E1008, [&] { load(folder.path()); });
  const base::Problem of_file = problem_of(Code::E1004, [&] { load(config); });
  for (const base::Problem& problem : {of_folder, of_file}) {
    EXPECT_TRUE(has(problem.got, "Hugging Face")) << problem.got;
    EXPECT_TRUE(has(problem.next, "--from")) << problem.next;
  }
}

TEST(OtherInputsTest, AFileOfTensorsIsSentToParity) {
  const std::string golden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_tiny.safetensors";
  EXPECT_TRUE(has(problem_of(Code::E1004, [&] { load(golden); }).next, "megacpp parity " + golden));
}

TEST(OtherInputsTest, ARecipeInJsonIsARecipe) {
  EXPECT_NO_THROW(refuse_model_file("a.json", R"({"model": {"pattern": "AE"}, "name": "model_type"})"));
  EXPECT_THROW(refuse_model_file("a.json", R"({"model_type" : "llama"})"), base::Error);
}

}  // namespace
}  // namespace megacpp::recipe
