// SPDX-License-Identifier: Apache-2.0
// Needs the compiler's library and no GPU.
#include "megacpp/machine/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/cuda/tile_source.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::runtime::cuda {
namespace {

using testing_support::has;
using testing_support::problem_of;

// Nothing where this machine has no NVRTC.
std::optional<Library> nvrtc_library() {
  try {
    return open_library(LibraryKind::nvrtc, {});
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!library_) GTEST_SKIP() << "NVRTC is not installed";
  }
  std::optional<Library> library_ = nvrtc_library();
  testing_support::TemporaryFolder folder_;
};

TEST_F(NvrtcTest, CompilesATileProgramToACubin) {
  const ops::Types operands = {{ir::DType::bf16, {64, 32}}, {ir::DType::f32, {32}}};
  const ir::Attrs attrs = {{"shape", ir::Shape{64, 32}},
                           {"program", std::string("in(0,1) in(1) mul(%0,%1) logistic(%2) out(%3) sum(%3;1)")},
                           {"dtypes", std::string("bf16 f32")}};
  const ops::Types results = ops::op_def("fused").infer(operands, attrs);
  const ops::NodeView view{operands, results, attrs};
  const std::string source = tile_source(plan_tiles(view), view);
  Nvrtc compiler(*library_, "sm_90a", folder_.path());
  EXPECT_TRUE(has(compiler.version(), ".")) << compiler.version();
  const std::vector<char> cubin = compiler.cubin(source);
  ASSERT_GE(cubin.size(), 4U);
  EXPECT_EQ(std::string(cubin.data() + 1, 3), "ELF");
  EXPECT_EQ(base::list_folder(folder_.path()).size(), 1U) << "kept for the next run";
  EXPECT_EQ(Nvrtc(*library_, "sm_90a", folder_.path()).cubin(source), cubin);
}

// One text for all sizes, with the kernels of tables.
TEST_F(NvrtcTest, CompilesTheTablesOfAFlatProgram) {
  const ir::TensorType type{ir::DType::f32, {4096}};
  const ir::Attrs attrs = {{"shape", ir::Shape{4096}},
                           {"program", std::string("in(0) in() mul(%0,%1) out(%2) mul(%2,%2) sum(%3;1)")},
                           {"dtypes", std::string("f32 f32")}};
  const ops::Types operands = {type, {ir::DType::f32, {}}}, results = ops::op_def("fused").infer(operands, attrs);
  const ops::NodeView view{operands, results, attrs};
  const std::vector<char> cubin = Nvrtc(*library_, "sm_90a", folder_.path()).cubin(tile_source(plan_tiles(view), view));
  const std::string code(cubin.begin(), cubin.end());
  for (const char* kernel : {kTileKernel, kTileCombineKernel, kTileBatchKernel, kTileCombineBatchKernel})
    EXPECT_TRUE(has(code, ".text." + std::string(kernel))) << kernel;
}

TEST_F(NvrtcTest, AnErrorHasTheCompilersWords) {
  Nvrtc compiler(*library_, "sm_90a", folder_.path());
  const base::Problem problem =
      problem_of(base::Code::E3204, [&] { compiler.cubin("extern \"C\" __global__ void f() { unknown_name = 1; }"); });
  EXPECT_TRUE(has(problem.got, "unknown_name")) << problem.got;
  EXPECT_TRUE(has(problem.where, compiler.version()));
}

TEST_F(NvrtcTest, AnUnknownArchitectureIsNamed) {
  Nvrtc compiler(*library_, "sm_1", folder_.path());
  const base::Problem problem =
      problem_of(base::Code::E3204, [&] { compiler.cubin("extern \"C\" __global__ void f() {}"); });
  EXPECT_TRUE(has(problem.where, "sm_1"));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
