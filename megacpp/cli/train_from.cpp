// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/train_from.h"

#include <memory>

#include "megacpp/base/error.h"
#include "megacpp/checkpoint/hf_folder.h"
#include "megacpp/checkpoint/reader.h"
#include "megacpp/launch/run_directory.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/train/load_state.h"

namespace megacpp::cli {
namespace {

WeightSource from_hf_folder(const std::filesystem::path& folder) {
  const checkpoint::HfModel described = checkpoint::import_hf_folder_config(folder);
  const std::string config = (folder / "config.json").string();
  MEGACPP_REQUIRE(!described.lone_block, E1202,
                  {.where = config,
                   .got = described.cls + ", a block without embedding and head",
                   .wanted = "a whole model",
                   .next = "give the folder of a model that is named in docs/interoperability.md"});
  // Read when the chips are there, and dropped once they have it: no copy of the model stays beside the run.
  return {.model = {.model = described.model, .source = config},
          .folder = folder,
          .load = [folder](const compile::Compiled& compiled, runtime::Executable& run) {
            train::load_weights(checkpoint::import_hf_folder(folder).tensors, compiled, run,
                                train::AbsentAdapters::left);
          }};
}

WeightSource from_run(const std::string& named) {
  const launch::ResumePoint point = launch::find_resume_point(named);
  const std::filesystem::path file = point.run / "recipe.yaml";
  // Shared by the copies of the function.
  const auto reader = std::make_shared<const checkpoint::Reader>(point.checkpoint);
  return {.model = {.model = recipe::load(file).model, .source = file.string()},
          .folder = point.run,
          .load = [reader](const compile::Compiled& compiled, runtime::Executable& run) {
            train::load_weights(*reader, compiled, run, train::AbsentAdapters::left);
          }};
}

}  // namespace

WeightSource open_weight_source(const std::string& named) {
  const std::filesystem::path path = named;
  std::error_code ignored;
  const bool is_folder = std::filesystem::exists(path / "config.json", ignored) && !launch::is_run(path);
  return is_folder ? from_hf_folder(path) : from_run(named);
}

}  // namespace megacpp::cli
