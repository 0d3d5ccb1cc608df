// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <thread>

#include "megacpp/base/error.h"
#include "megacpp/ir/text.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/remove_dead.h"
#include "tests/support/errors.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {
namespace {

using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;

// One graph, planned and loaded.
struct Loaded {
  explicit Loaded(ir::Graph source, const LoadOptions& options = {}, const ir::Mesh& mesh = {}) {
    compiled.mesh = mesh;
    compiled.stages.resize(1);
    compiled.stages[0].programs.push_back({.graph = std::move(source)});
    compiled.stages[0].step = {{.program = 0}};
    compiled.stages[0].memory = memory::plan_memory({&graph()}, cpu_target(options.threads));
    executable = load(compiled, options);
  }

  const ir::Graph& graph() const { return compiled.stages[0].programs[0].graph; }

  compile::Compiled compiled;
  std::unique_ptr<Executable> executable;
};

TEST(CpuBackendTest, RandomProgramsEqualTheReferenceStepAfterStep) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph source = testing_support::random_graph(seed, 10 + static_cast<int>(seed % 50));
    Loaded loaded(schedule::order_for_low_peak(schedule::lower_elementwise(
                      schedule::fuse(schedule::fold_accumulation(schedule::remove_dead(source))))),
                  {.threads = 1 + static_cast<int>(seed % 2)});
    auto inputs = testing_support::random_inputs(source, "seed" + std::to_string(seed));
    for (const auto& [name, tensor] : inputs) loaded.executable->write_state(name, 0, testing_support::encoded(tensor));
    for (int step = 0; step < 2; ++step) {
      const auto wanted = ops::evaluate(loaded.graph(), inputs);
      loaded.executable->run(0);
      for (const ir::Output& output : loaded.graph().outputs()) {
        const ops::Tensor& tensor = wanted.at(output.name);
        ASSERT_TRUE(is_close(decode(tensor.type, loaded.executable->output(0, output.name).data()), tensor, 1e-4))
            << output.name << "\n"
            << ir::print(loaded.graph());
        if (!output.donated.empty())
          inputs[output.donated] = testing_support::state_of(*loaded.executable, output.donated, tensor.type);
      }
    }
    EXPECT_LE(loaded.executable->memory().measured_peak_bytes, loaded.executable->memory().planned_peak_bytes);
  }
}

ir::Graph roots() {
  return ir::parse(R"ir(graph "roots" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] #batch
  %1 = fused(%0) {dtypes="f32", program="in(0) sqrt(%0) out(%1)", shape=[3]} : f32[3] @block00.A.core
  %2 = fused(%1) {dtypes="f32", program="in(0) sum(%0;1)", shape=[3]} : f32[] @loss
  output "loss" = %2
}
)ir");
}

void set(Executable& executable, const std::vector<double>& x) {
  ops::Tensor tensor = ops::Tensor::zeros({ir::DType::f32, {3}});
  tensor.data = x;
  executable.write_state("x", 0, testing_support::encoded(tensor));
}

TEST(CpuBackendTest, ScalarOutputsAreReadByName) {
  Loaded loaded(roots());
  set(*loaded.executable, {1, 4, 9});
  loaded.executable->run(0);
  EXPECT_FLOAT_EQ(loaded.executable->scalar_output(0, "loss"), 6.0F);
  EXPECT_THROW(loaded.executable->scalar_output(0, "gain"), base::Error);
  EXPECT_THROW(loaded.executable->write_state("y", 0, {}), base::Error);
}

TEST(CpuBackendTest, FirstBadValueIsNamedWithItsPlace) {
  Loaded loaded(roots());
  set(*loaded.executable, {1, 4, 9});
  loaded.executable->run_step({.check_values = true});
  EXPECT_FLOAT_EQ(loaded.executable->scalar_output(0, "loss"), 6.0F) << "a checked run is a run";
  set(*loaded.executable, {1, -4, 9});
  try {
    loaded.executable->run_step({.check_values = true});
    FAIL() << "no error";
  } catch (const NotFinite& bad) {
    EXPECT_EQ(bad.value.program, "roots");
    EXPECT_EQ(bad.value.node, 1U);
    EXPECT_EQ(bad.value.scope, "block00.A.core");
  }
}

TEST(CpuBackendTest, APlanLargerThanTheMachineIsRefusedBeforeAnyMemoryIsTouched) {
  compile::Compiled compiled;
  compiled.stages.resize(1);
  compiled.stages[0].memory.total_bytes = int64_t{1} << 60;
  try {
    load(compiled, {.threads = 1});
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E2001);
    EXPECT_EQ(error.exit_status(), 3);
    EXPECT_EQ(error.problem().next.find("no less"), std::string::npos);
  }
  compiled.stages[0].memory.total_bytes = int64_t{1} << 50;
  compiled.mesh = ir::Mesh({{"data.0", 2}, {"data.1", 2}, {"expert", 3}, {"model", 5}});
  try {
    load(compiled, {.threads = 1});
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(error.problem().next.find("reduce train.batch to no less than 12 "), std::string::npos) << error.what();
  }
}

TEST(CpuBackendTest, ProfileCountsSecondsPerOp) {
  Loaded loaded(roots(), {.threads = 1, .profile = true});
  loaded.executable->run(0);
  const auto seconds = loaded.executable->op_seconds();
  ASSERT_EQ(seconds.size(), 1U);
  EXPECT_EQ(seconds[0].first, "fused");
  EXPECT_GT(seconds[0].second, 0.0);
}

TEST(CpuBackendTest, TargetAnswersForOpsWithAndWithoutKernel) {
  const schedule::Target target = cpu_target(2);
  const ops::Types operands = {{ir::DType::f32, {4, 8}}, {ir::DType::f32, {8}}};
  const ir::Attrs attrs{{"eps", 1e-5}};
  const ops::Types results = ops::op_def("rms_norm").infer(operands, attrs);
  EXPECT_TRUE(target.runs("rms_norm", {operands, results, attrs}));
  const base::Decision no = target.runs("unheard_of", {operands, results, attrs});
  EXPECT_FALSE(no);
  EXPECT_NE(no.reason().find("unheard_of"), std::string::npos);
  EXPECT_GE(available_threads(), 1);
}

ir::Graph sum_over_chips() {
  return ir::parse(R"ir(graph "sum" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] #batch
  %1 = all_reduce(%0) {axes="x", kind="sum"} : f32[3] @loss
  output "sum" = %1
}
)ir");
}

TEST(CpuBackendTest, AFailingChipEndsTheStepOfAllWithItsOwnError) {
  Loaded loaded(sum_over_chips(), {}, ir::Mesh({{"x", 4}}));
  const StepHooks hooks{.before = [](int64_t chip, const compile::Action&) {
    if (chip == 2) base::raise(base::Code::E3001, {.where = "chip 2", .got = "disk full"});
  }};
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3001, [&] { loaded.executable->run_step(hooks); });
  EXPECT_EQ(problem.got, "disk full");
}

TEST(CpuBackendTest, AChipThatIsTooSlowIsNamed) {
  Loaded loaded(sum_over_chips(), {.wait_limit = std::chrono::seconds(1)}, ir::Mesh({{"x", 2}}));
  const StepHooks hooks{.before = [](int64_t chip, const compile::Action&) {
    if (chip == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }};
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3102, [&] { loaded.executable->run_step(hooks); });
  EXPECT_NE(problem.got.find("for chip 1"), std::string::npos) << problem.got;
}

}  // namespace
}  // namespace megacpp::runtime::cpu
