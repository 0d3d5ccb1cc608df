// SPDX-License-Identifier: Apache-2.0
// What a plan says the arguments of a chip's program take is what the arguments of the emitted step take.
#include <gtest/gtest.h>

#include <ostream>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/machine/xla/pjrt/step_module.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::testing_support {
namespace {

struct ArgumentRow {
  std::string name;
  std::string recipe;
  std::string slice;
  std::vector<std::string> settings;
};

void PrintTo(const ArgumentRow& row, std::ostream* out) { *out << row.name; }

int64_t emitted_bytes(const recipe::Recipe& recipe, const hw::Chip& chip) {
  const auto placement = emit::Placement::megacpp;
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe), runtime::pjrt::xla_target(placement));
  int64_t bytes = 0;
  const emit::Module module = runtime::pjrt::module_of(
      compiled, {.placement = placement, .plugin = "libtpu.so", .has_loops = recipe::has_block_loops(recipe)});
  for (const emit::Port& port : module.arguments)
    bytes += hw::argument_bytes(chip, ir::dtype_name(port.local.dtype), port.local.shape);
  return bytes;
}

class ArgumentBytesTest : public testing::TestWithParam<ArgumentRow> {};

TEST_P(ArgumentBytesTest, PlannedAsEmitted) {
  const ArgumentRow& row = GetParam();
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR "/recipes/").append(row.recipe).append(".yaml"), row.settings);
  const fit::Assumptions assumptions{
      .slice = hw::parse_target(row.slice), .kernels = runtime::cpu::cpu_target(1), .xla_forms = fit::XlaForms{}};
  const fit::Estimate estimate = fit::make_estimate(recipe, assumptions);
  const hw::Chip& chip = assumptions.slice.chip;
  EXPECT_EQ(fit::argument_bytes(estimate.worst_memory(), recipe, chip).total(), emitted_bytes(recipe, chip));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ArgumentBytesTest,
    testing::Values(
        ArgumentRow{"Nam52Zero3",
                    "nam52-1b",
                    "v6e:16x16",
                    {"layout.data_parallel=256", "layout.zero=3", "train.batch=256", "train.micro_steps=2"}},
        ArgumentRow{"Nam52Tensor",
                    "nam52-1b",
                    "v6e:4x4",
                    {"layout.data_parallel=4", "layout.tensor_parallel=4", "train.batch=4"}},
        ArgumentRow{"Nam56rTensorZero3",
                    "nam56r-1b",
                    "v6e:16x16",
                    {"layout.data_parallel=64", "layout.tensor_parallel=4", "layout.zero=3", "train.batch=64"}},
        ArgumentRow{"Nam52TensorUnrolled",
                    "nam52-1b",
                    "v6e:4x4",
                    {"layout.data_parallel=4", "layout.tensor_parallel=4", "train.batch=4", "xla.loops=off"}},
        ArgumentRow{
            "Nam56rExpertsUnrolled",
            "nam56r-1b",
            "v6e:4x4",
            {"layout.data_parallel=4", "layout.expert_parallel=4", "layout.zero=3", "train.batch=16", "xla.loops=off"}},
        ArgumentRow{"WholePatternsOfExperts",
                    "nam56r-1b",
                    "v6e:2x2",
                    {"model.pattern=AE", "model.depth=24", "layout.data_parallel=4", "layout.zero=3", "train.batch=4",
                     "train.micro_steps=1"}},
        ArgumentRow{"Documents",
                    "nam56r-1b",
                    "v6e:2x2",
                    {"model.pattern=EA", "model.depth=8", "model.attention.document_mask=true",
                     "layout.data_parallel=4", "train.batch=4"}},
        ArgumentRow{"Nam56rExperts",
                    "nam56r-1b",
                    "v6e:4x4",
                    {"layout.data_parallel=4", "layout.expert_parallel=4", "layout.zero=3", "train.batch=16"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace megacpp::testing_support
