// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <thread>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/machine/cpu/cpu_device.h"
#include "megacpp/machine/runtime/native_executable.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/schedule/fold_accumulation.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/order.h"
#include "megacpp/program/schedule/remove_dead.h"
#include "tests/support/errors.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {
namespace {

using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;

// One graph, planned and loaded. All its inputs are state that is kept, all its outputs can be fetched.
struct Loaded {
  explicit Loaded(ir::Graph source, LoadOptions options = {}, const ir::Mesh& mesh = {}) {
    compiled.mesh = mesh;
    compile::StagePrograms& stage = compiled.stages.emplace_back();
    stage.programs.push_back({.graph = std::move(source)});
    stage.step = {{.program = 0, .reads_batch = true}};
    stage.memory = memory::plan_memory({&graph()}, cpu_target(options.threads));
    stage.state = compile::state_table(stage, {}, {});
    for (compile::StateTensor& tensor : stage.state) {
      tensor.kept = true;
      tensor.staged_as.clear();
    }
    for (const ir::Output& output : graph().outputs()) options.fetches.push_back(output.name);
    executable = load(compiled, options);
  }

  void run(StepMode mode = StepMode::plain) { executable->run_step(mode); }

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
      loaded.run();
      for (const ir::Output& output : loaded.graph().outputs()) {
        const ops::Tensor& tensor = wanted.at(output.name);
        ASSERT_TRUE(is_close(decode(tensor.type, loaded.executable->fetch(output.name, 0).data()), tensor, 1e-4))
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

TEST(CpuBackendTest, OutputsAreFetchedByName) {
  Loaded loaded(roots());
  set(*loaded.executable, {1, 4, 9});
  loaded.run();
  EXPECT_EQ(loaded.executable->fetch_f32("loss", 0), std::vector<float>{6});
  testing_support::problem_of(base::Code::E1203, [&] { loaded.executable->fetch("gain", 0); });
}

TEST(CpuBackendTest, CountsWhatTheHostDoesWithIt) {
  Loaded loaded(roots());
  set(*loaded.executable, {1, 4, 9});
  loaded.run();
  loaded.run();
  loaded.executable->fetch("loss", 0);
  const Counters counters = loaded.executable->counters();
  EXPECT_EQ(counters.compiles, (std::map<std::string, int64_t>{{"kernels prepared", 1}}));
  EXPECT_EQ(counters.executions, 2);
  EXPECT_EQ(counters.host_syncs, 3) << "the host waits for its own threads";
  EXPECT_EQ(counters.host_to_device.bytes, 12);
  EXPECT_EQ(counters.device_to_host.bytes, 4);
}

TEST(CpuBackendTest, FirstBadValueIsNamedWithItsPlace) {
  Loaded loaded(roots());
  set(*loaded.executable, {1, 4, 9});
  loaded.run(StepMode::check_values);
  EXPECT_EQ(loaded.executable->fetch_f32("loss", 0), std::vector<float>{6}) << "a checked run is a run";
  set(*loaded.executable, {1, -4, 9});
  try {
    loaded.run(StepMode::check_values);
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
  loaded.run();
  EXPECT_TRUE(loaded.executable->op_seconds().empty()) << "the first step warms up";
  loaded.run();
  const auto seconds = loaded.executable->op_seconds();
  ASSERT_EQ(seconds.size(), 1U);
  EXPECT_EQ(seconds[0].op, "fused");
  EXPECT_FALSE(seconds[0].program.empty());
  EXPECT_GT(seconds[0].seconds, 0.0);
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
  Loaded loaded(sum_over_chips(), {.faults = {{.chip = 2, .step = 0}}}, ir::Mesh({{"x", 4}}));
  const base::Problem problem = testing_support::problem_of(base::Code::E2004, [&] { loaded.run(); });
  EXPECT_EQ(problem.where.find("chip 2: x 2 "), 0U) << problem.where;
}

// Thinks before every call.
class SlowDevice : public CpuDevice {
 public:
  SlowDevice(const Link& link, const Options& options, std::chrono::milliseconds delay)
      : CpuDevice(link, options), delay_(delay) {}

  DeviceCall prepare(const BoundNode& bound) override {
    DeviceCall call = CpuDevice::prepare(bound);
    call.run = [run = std::move(call.run), delay = delay_] {
      std::this_thread::sleep_for(delay);
      run();
    };
    return call;
  }

 private:
  std::chrono::milliseconds delay_;
};

// Two chips, of which the second is slow.
std::unique_ptr<Executable> with_a_slow_chip(const compile::Compiled& compiled, std::chrono::milliseconds delay) {
  const std::shared_ptr<collectives::World> world =
      collectives::inproc_transport().make({.chips = 2, .wait_limit = std::chrono::seconds(1)});
  const auto device = [&compiled, world, delay](int64_t chip) -> std::unique_ptr<ChipDevice> {
    const Link link{compiled.mesh, chip, world->communicator(chip)};
    const CpuDevice::Options options{.arena_bytes = compiled.stages[0].memory.total_bytes,
                                     .transport = collectives::inproc_transport()};
    if (chip == 1) return std::make_unique<SlowDevice>(link, options, delay);
    return std::make_unique<CpuDevice>(link, options);
  };
  NativeBackend backend;
  backend.path = "slow";
  backend.world = world;
  backend.device = device;
  backend.limits = {{0, 0}, {1, 0}};
  return std::make_unique<NativeExecutable>(compiled, LoadOptions{}, std::move(backend));
}

TEST(CpuBackendTest, AChipThatIsTooSlowIsNamed) {
  const Loaded loaded(sum_over_chips(), {}, ir::Mesh({{"x", 2}}));
  const std::unique_ptr<Executable> slow = with_a_slow_chip(loaded.compiled, std::chrono::milliseconds(1500));
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3102, [&] { slow->run_step(StepMode::plain); });
  EXPECT_NE(problem.got.find("for chip 1"), std::string::npos) << problem.got;
}

// The other waits for it in every step: both take as long.
TEST(CpuBackendTest, TheBusiestChipIsTheOneThatOthersWaitFor) {
  const Loaded loaded(ir::parse(R"ir(graph "sum" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] #batch
  %1 = fused(%0) {dtypes="f32", program="in(0) neg(%0) out(%1)", shape=[3]} : f32[3] @block00.A.core
  %2 = all_reduce(%1) {axes="x", kind="sum"} : f32[3] @loss
  output "sum" = %2
}
)ir"),
                      {}, ir::Mesh({{"x", 2}}));
  constexpr auto kDelay = std::chrono::milliseconds(20);
  const std::unique_ptr<Executable> slow = with_a_slow_chip(loaded.compiled, kDelay);
  slow->run_step(StepMode::plain);
  EXPECT_FALSE(slow->busy()) << "before a second step";
  for (int step = 0; step < 3; ++step) slow->run_step(StepMode::plain);
  const BusyChip busiest = slow->busy().value();
  EXPECT_EQ(busiest.chip, 1);
  EXPECT_GE(busiest.seconds, std::chrono::duration<double>(kDelay).count()) << "the mean of a step";
  EXPECT_LE(busiest.seconds, slow->step_parts()->seconds());
}

}  // namespace
}  // namespace megacpp::runtime::cpu
