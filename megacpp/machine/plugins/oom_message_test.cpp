// SPDX-License-Identifier: Apache-2.0
// The samples are lines of public logs; each says where it stands.
#include "megacpp/machine/plugins/oom_message.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "tests/support/tpu_messages.h"

namespace megacpp::runtime::plugins {
namespace {

constexpr const char* kLong = testing_support::kLongTpuMessage;
constexpr const char* kShort = testing_support::kShortTpuMessage;

constexpr double kKi = 1024, kMi = 1024 * kKi, kGi = 1024 * kMi;

Bytes bytes(double value) { return static_cast<int64_t>(std::llround(value)); }

const OomContext kCompilingForTpu = {.during = OomClass::compile, .platform = PluginKind::tpu};
const OomContext kRunningOnTpu = {.during = OomClass::runtime, .platform = PluginKind::tpu};
const OomContext kRunningOnGpu = {.during = OomClass::runtime, .platform = PluginKind::cuda};

TEST(OomMessageTest, TheLongCompileMessageGivesEveryNumber) {
  const OomMessage oom = read_oom_message(kLong, kCompilingForTpu);
  EXPECT_EQ(oom.cls, OomClass::compile);
  EXPECT_EQ(oom.memory_space, "hbm");
  EXPECT_EQ(oom.used, bytes(63.80 * kGi));
  EXPECT_EQ(oom.limit, bytes(30.75 * kGi));
  EXPECT_EQ(oom.exceeded, bytes(33.05 * kGi));
  EXPECT_EQ(oom.split.reserved, bytes(1.25 * kGi));
  EXPECT_EQ(oom.split.program, bytes(63.80 * kGi));
  EXPECT_EQ(oom.split.arguments, 0);
  EXPECT_EQ(oom.split.output, 0);
  EXPECT_EQ(oom.split.temp, bytes(63.79 * kGi));
  EXPECT_EQ(oom.split.temp_unpadded, bytes(63.58 * kGi));
  EXPECT_EQ(oom.split.temp_padded, bytes(63.58 * kGi));
  EXPECT_EQ(oom.split.fragmentation, bytes(210.89 * kMi));
  ASSERT_EQ(oom.largest.size(), 2U);
  const OomAllocation& first = oom.largest[0];
  EXPECT_EQ(first.bytes, bytes(2 * kGi));
  EXPECT_EQ(first.unpadded, bytes(2 * kGi));
  EXPECT_EQ(first.op_name, "jit(casual_language_model_train_step)/jit(main)/dot_general[precision=None]");
  EXPECT_EQ(first.source, "/home/air/workspace/EasyDel/src/easydel/modules/attention_module.py:1059");
  EXPECT_EQ(first.shape, "f32[32,4096,4096]{1,2,0:T(8,128)}");
  EXPECT_EQ(first.label.substr(0, 18), "fusion.1265.remat3");
  EXPECT_EQ(first.kind, "HLO temp");
  EXPECT_EQ(oom.largest[1].bytes, bytes(512 * kMi));
  EXPECT_EQ(oom.text, kLong);
}

TEST(OomMessageTest, OlderLongMessagesAreReadAsFarAsTheyGo) {
  // DifferentiableUniverseInitiative/flowpm#27
  const OomMessage oom = read_oom_message(
      R"(Compilation failure: Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm. Exceeded hbm capacity by 25.74G.

Total hbm usage >= 41.74G:
    reserved        528.00M
    program          41.22G
    arguments       unknown size

Output size unknown.

Program hbm requirement 41.22G:
    reserved           4.0K
    HLO temp         41.19G (24.2% utilization, 0.7% fragmentation (293.84M))

  Largest program allocations in hbm:

  1. Size: 32.00G
     Operator: op_type="FloorMod" op_name="slicewise_79/cic_update/FloorMod"
     Shape: s32[8388608,8,4]{2,1,0:T(8,128)}
     Unpadded size: 1.00G
     Extra memory due to padding: 31.00G (32.0x expansion)
)",
      kCompilingForTpu);
  EXPECT_EQ(oom.split.reserved, bytes(528 * kMi));
  EXPECT_EQ(oom.split.arguments, std::nullopt);
  EXPECT_EQ(oom.split.output, std::nullopt);
  EXPECT_EQ(oom.split.temp_unpadded, std::nullopt);
  EXPECT_EQ(oom.split.fragmentation, bytes(293.84 * kMi));
  ASSERT_EQ(oom.largest.size(), 1U);
  EXPECT_EQ(oom.largest[0].bytes, bytes(32 * kGi));
  EXPECT_EQ(oom.largest[0].unpadded, bytes(1 * kGi));
  EXPECT_EQ(oom.largest[0].source, "");

  // jax-ml/jax#7502
  const OomMessage padded = read_oom_message(
      "Resource exhausted: Ran out of memory in memory space hbm. Used 64.00G of 15.48G hbm. Exceeded hbm capacity by "
      "48.52G.\n\n    HLO temp         64.00G (1.4% utilization: Unpadded (896.00M) Padded (64.00G), 0.0% "
      "fragmentation "
      "(0B))\n",
      kCompilingForTpu);
  EXPECT_EQ(padded.split.temp_unpadded, bytes(896 * kMi));
  EXPECT_EQ(padded.split.temp_padded, bytes(64 * kGi));
  EXPECT_EQ(padded.split.fragmentation, 0);
}

TEST(OomMessageTest, TheShortCompileMessage) {
  const OomMessage oom = read_oom_message(kShort, kCompilingForTpu);
  EXPECT_EQ(oom.cls, OomClass::compile);
  EXPECT_EQ(oom.used, bytes(62.12 * kGi));
  EXPECT_EQ(oom.limit, bytes(31.24 * kGi));
  EXPECT_EQ(oom.exceeded, *bytes(62.12 * kGi) - *bytes(31.24 * kGi));
  EXPECT_EQ(oom.split.temp, bytes(62.12 * kGi));
  EXPECT_EQ(oom.program, "jit_step");
  EXPECT_TRUE(oom.largest.empty());
}

TEST(OomMessageTest, CompileMessagesOfOneAllocationAndOfTwoCores) {
  // openxla/xprof: memory profile documentation
  const OomMessage one = read_oom_message(
      "RESOURCE_EXHAUSTED: Allocation (size=107374182400) would exceed memory (size=17179869184) :: #allocation7 "
      "[shape "
      "= 'u8[327680,327680]{1,0:T(8,128)(4,1)}', space=hbm, size = 0xffffffffffffffff, tag = 'output of "
      "xor_convert_fusion@{}'] :: <no-hlo-instruction>",
      kRunningOnTpu);
  EXPECT_EQ(one.cls, OomClass::compile);
  EXPECT_EQ(one.memory_space, "hbm");
  EXPECT_EQ(one.used, 107374182400);
  EXPECT_EQ(one.limit, 17179869184);
  EXPECT_EQ(one.exceeded, 107374182400 - 17179869184);
  ASSERT_EQ(one.largest.size(), 1U);
  EXPECT_EQ(one.largest[0].shape, "u8[327680,327680]{1,0:T(8,128)(4,1)}");
  EXPECT_EQ(one.largest[0].label, "output of xor_convert_fusion@{}");

  // openxla/xla: docs/errors/error_1000.md
  const OomMessage two = read_oom_message(
      "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding available bytes: "
      "95.74G",
      kRunningOnTpu);
  EXPECT_EQ(two.cls, OomClass::compile);
  EXPECT_EQ(two.used, *bytes(34.82 * kGi) + *bytes(174.10 * kGi));
  EXPECT_EQ(two.limit, bytes(95.74 * kGi));

  // pytorch/xla#9524
  const OomMessage vmem = read_oom_message(
      "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used 32.42M of "
      "16.00M vmem. Exceeded vmem capacity by 16.42M",
      kCompilingForTpu);
  EXPECT_EQ(vmem.memory_space, "vmem");
  EXPECT_EQ(vmem.exceeded, bytes(16.42 * kMi));
}

TEST(OomMessageTest, LoadingAProgram) {
  // openxla/xla: docs/errors/error_0101.md
  const OomMessage oom = read_oom_message(
      "RESOURCE_EXHAUSTED: Error loading program 'jit_embedding_pipeline_step_fn': Attempting to reserve 29.49G at the "
      "bottom of memory. That was not possible. There are 147.64M free, 0B reserved, and 147.64M reservable. Scope: "
      "unknown..: while running replica 0 and partition 34 of a replicated computation (other replicas may have failed "
      "as well).",
      kRunningOnTpu);
  EXPECT_EQ(oom.cls, OomClass::load);
  EXPECT_EQ(oom.used, bytes(29.49 * kGi));
  EXPECT_EQ(oom.limit, bytes(147.64 * kMi));
  EXPECT_EQ(oom.device, "partition 34");
  EXPECT_EQ(oom.program, "jit_embedding_pipeline_step_fn");

  // pytorch/xla#3470: more free than can be reserved in one piece
  const OomMessage broken_up = read_oom_message(
      "RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not possible. There are 6.78G "
      "free, 0B reserved, and 3.33G reservable.",
      kRunningOnTpu);
  EXPECT_EQ(broken_up.cls, OomClass::load);
  EXPECT_EQ(broken_up.limit, bytes(3.33 * kGi));

  // pytorch/xla#1735
  const OomMessage old = read_oom_message(
      R"(Resource exhausted: From /job:tpu_worker/replica:0/task:0:
Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G free, 0B reserved, and 1.92G reservable.; 
Total hbm usage >= 10.94G:
    reserved(Infeed/Outfeed/Continuations) 529.00M 
    heap allocations (without fragmentation)   6.08G 
    program                    4.34G 

Persistent allocations include some or all of:
    arguments                478.07M (89.4% utilization)
    output                     5.06G (71.6% utilization) [may share some memory with arguments]
)",
      kRunningOnTpu);
  EXPECT_EQ(old.cls, OomClass::load);
  EXPECT_EQ(old.split.reserved, bytes(529 * kMi));
  EXPECT_EQ(old.split.program, bytes(4.34 * kGi));
  EXPECT_EQ(old.split.arguments, bytes(478.07 * kMi));
  EXPECT_EQ(old.split.output, bytes(5.06 * kGi));
}

TEST(OomMessageTest, AllocatingABufferOnATpu) {
  // openxla/xla: docs/errors/error_0100.md
  const OomMessage oom = read_oom_message(
      "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 8.00M. That was not possible. There "
      "are 6.43M free.; (0x0x1_HBM0)",
      kRunningOnTpu);
  EXPECT_EQ(oom.cls, OomClass::runtime);
  EXPECT_EQ(oom.used, bytes(8 * kMi));
  EXPECT_EQ(oom.limit, bytes(6.43 * kMi));
  EXPECT_EQ(oom.exceeded, *bytes(8 * kMi) - *bytes(6.43 * kMi));
  EXPECT_EQ(oom.device, "0x0x1_HBM0");
}

TEST(OomMessageTest, AllocatingOnAGpu) {
  // jax-ml/jax#13428
  const OomMessage oom = read_oom_message(
      R"(RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    6.00MiB
              constant allocation:         0B
        maybe_live_out allocation:    6.00MiB
     preallocated temp allocation:         0B
                 total allocation:   12.00MiB
              total fragmentation:         0B (0.00%)
Peak buffers:
        Buffer 1:
                Size: 6.00MiB
                Operator: op_name="jit(concatenate)/jit(main)/concatenate[dimension=0]" source_file="/media/models.py" source_line=689
                XLA Label: concatenate
                Shape: f32[4096,128,3]
                ==========================

        Buffer 2:
                Size: 384.0KiB
                Entry Parameter Subshape: f32[256,128,3]
                ==========================
)",
      kRunningOnGpu);
  EXPECT_EQ(oom.cls, OomClass::runtime);
  EXPECT_EQ(oom.used, 6291456);
  EXPECT_EQ(oom.limit, std::nullopt);
  EXPECT_EQ(oom.split.arguments, bytes(6 * kMi));
  EXPECT_EQ(oom.split.temp, 0);
  ASSERT_EQ(oom.largest.size(), 2U);
  EXPECT_EQ(oom.largest[0].source, "/media/models.py:689");
  EXPECT_EQ(oom.largest[0].label, "concatenate");
  EXPECT_EQ(oom.largest[1].bytes, bytes(384 * kKi));
  EXPECT_EQ(oom.largest[1].shape, "f32[256,128,3]");
  EXPECT_EQ(oom.largest[1].kind, "argument");

  // google-deepmind/jax_privacy#10
  const OomMessage request = read_oom_message(
      "RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B) on device ordinal 0", kRunningOnGpu);
  EXPECT_EQ(request.used, 184549376);
  EXPECT_EQ(request.device, "device ordinal 0");

  // flatironinstitute/nemos#345
  const OomMessage allocator = read_oom_message(
      "Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.37GiB with freed_by_count=0.", kRunningOnGpu);
  EXPECT_EQ(allocator.used, bytes(3.37 * kGi));
  EXPECT_EQ(allocator.device, "GPU_0_bfc");
}

TEST(OomMessageTest, TheHostIsAClassOfItsOwn) {
  const OomContext on_cpu = {.during = OomClass::runtime, .platform = PluginKind::cpu};
  const OomMessage cpu = read_oom_message("Out of memory allocating 85898814480 bytes.", on_cpu);
  EXPECT_EQ(cpu.cls, OomClass::host);
  EXPECT_EQ(cpu.used, 85898814480);
  const OomMessage staging =
      read_oom_message("Allocator (xla_gpu_host_bfc) ran out of memory trying to allocate 2.00GiB", kRunningOnGpu);
  EXPECT_EQ(staging.cls, OomClass::host);
}

TEST(OomMessageTest, AnythingElseIsKeptWhole) {
  for (const char* text : {"", "quota of something else", "Used", "HLO temp ", "Attempting to allocate", "1. Size: "}) {
    const OomMessage oom = read_oom_message(text, kCompilingForTpu);
    EXPECT_EQ(oom.cls, OomClass::compile);
    EXPECT_EQ(oom.used, std::nullopt);
    EXPECT_EQ(oom.text, text);
    EXPECT_NE(problem_of(oom, "x").got.find(text), std::string::npos);
  }
}

TEST(OomMessageTest, EveryPrefixOfAMessageCanBeRead) {
  const std::string whole = kLong;
  for (size_t length = 0; length <= whole.size(); ++length)
    EXPECT_EQ(read_oom_message(whole.substr(0, length), kCompilingForTpu).text.size(), length);
}

TEST(OomMessageTest, Sizes) {
  EXPECT_EQ(read_size("31.25G hbm"), 33554432000);
  EXPECT_EQ(read_size("512.0M"), 536870912);
  EXPECT_EQ(read_size("1.50K"), 1536);
  EXPECT_EQ(read_size("0B"), 0);
  EXPECT_EQ(read_size("6.00MiB"), 6291456);
  EXPECT_EQ(read_size("2T"), int64_t{2} << 40);
  EXPECT_EQ(read_size("(4,237 bytes)"), std::nullopt);
  EXPECT_EQ(read_size("4,237,689,856 bytes)"), 4237689856);
  EXPECT_EQ(read_size("12."), 12);
  EXPECT_EQ(read_size("unknown size"), std::nullopt);
  EXPECT_EQ(read_size("1.2.3"), std::nullopt);
  EXPECT_EQ(read_size("99999999999999999999999G"), std::nullopt);
  EXPECT_EQ(read_size(""), std::nullopt);
}

TEST(OomMessageTest, ErrorsAndRecordsCarryTheNumbers) {
  const OomMessage oom = read_oom_message(kLong, kCompilingForTpu);
  EXPECT_EQ(code_of(oom.cls), base::Code::E2002);
  EXPECT_EQ(code_of(OomClass::load), base::Code::E2003);
  EXPECT_EQ(code_of(OomClass::runtime), base::Code::E2004);
  EXPECT_EQ(code_of(OomClass::host), base::Code::E2005);
  const base::Problem problem = problem_of(oom, "nam52 on v6e:2x2");
  EXPECT_EQ(problem.where, "nam52 on v6e:2x2");
  for (const char* part : {"compile-time HBM", "63.80 GiB wanted", "30.75 GiB there", "33.05 GiB too much",
                           "2.00 GiB f32[32,4096,4096]{1,2,0:T(8,128)} jit(casual"})
    EXPECT_NE(problem.got.find(part), std::string::npos) << part << "\n" << problem.got;
  const base::Json json = to_json(oom);
  EXPECT_EQ(json["code"], "E2002");
  EXPECT_EQ(json["split"]["fragmentation"], *bytes(210.89 * kMi));
  EXPECT_EQ(json["largest"].size(), 2U);
  EXPECT_EQ(json["text"], kLong);
}

}  // namespace
}  // namespace megacpp::runtime::plugins
