// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/flags.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::plugins {
namespace {

const FlagTarget kV6e = {.platform = PluginKind::tpu, .generation = "v6e"};

ResolvedFlags resolve(std::vector<std::string> entries, const FlagTarget& target = kV6e) {
  return resolve_flags(entries, target);
}

std::string refusal(std::vector<std::string> entries, const FlagTarget& target = kV6e) {
  try {
    return "resolved: " + to_text(resolve(std::move(entries), target));
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1507);
    return error.what();
  }
}

void expect_refusal(std::vector<std::string> entries, const std::string& part, const FlagTarget& target = kV6e) {
  const std::string said = refusal(std::move(entries), target);
  EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
}

TEST(FlagTableTest, NamesAreUniqueAndEveryFlagIsDescribed) {
  std::set<std::string> names;
  for (const FlagDef& flag : all_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name << " stands twice";
    EXPECT_FALSE(flag.platforms.empty()) << flag.name;
    EXPECT_FALSE(flag.doc.empty()) << flag.name;
    EXPECT_TRUE(flag.words.empty() || flag.type == FlagType::text) << flag.name;
  }
}

TEST(FlagsTest, AMachineThatHidesSveGetsCodeWithout) {
  const FlagTarget hides = {.platform = PluginKind::cpu, .hides_sve = true};
  EXPECT_EQ(override_form(resolve({}, hides)).at("xla_backend_optimization_level"), TypedFlagValue(int64_t{0}));
  EXPECT_NE(to_text(resolve({}, hides)).find("this machine hides its cores' SVE"), std::string::npos);
  EXPECT_EQ(override_form(resolve({"xla_backend_optimization_level=2"}, hides)).at("xla_backend_optimization_level"),
            TypedFlagValue(int64_t{2}))
      << "who says so wants it";
  EXPECT_TRUE(resolve({}, {.platform = PluginKind::cpu}).flags.empty());
  EXPECT_TRUE(resolve({}, {.platform = PluginKind::tpu, .hides_sve = true}).flags.empty());
}

TEST(FlagTableTest, EveryProfileResolvesForWhatItIsForAndSaysWhereItsValuesComeFrom) {
  std::set<std::string> names;
  for (const FlagProfile& profile : all_profiles()) {
    EXPECT_TRUE(names.insert(profile.name).second) << profile.name << " stands twice";
    EXPECT_FALSE(profile.doc.empty()) << profile.name;
    EXPECT_FALSE(profile.source.empty()) << profile.name;
    std::vector<std::string> generations = profile.generations;
    if (generations.empty()) generations = {""};
    for (const std::string& generation : generations) {
      const ResolvedFlags flags = resolve({profile.name}, {.platform = profile.platform, .generation = generation});
      EXPECT_EQ(flags.flags.size(), profile.values.size()) << profile.name;
    }
  }
}

TEST(FlagsTest, ProfilesAndNamedValuesBecomeOneTypedList) {
  const ResolvedFlags flags = resolve({"no-collective-matmul", "xla_tpu_scoped_vmem_limit_kib=65536",
                                       "xla_tpu_overlap_compute_collective_tc=true", "raw:some_new_flag=7"});
  EXPECT_EQ(to_text(flags),
            "xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000  (profile no-collective-matmul)\n"
            "xla_tpu_scoped_vmem_limit_kib=65536  (recipe)\n"
            "xla_tpu_overlap_compute_collective_tc=true  (recipe)\n"
            "some_new_flag=7  (raw)\n");
  EXPECT_EQ(base::to_text(to_json(resolve({"xla_tpu_rwb_fusion=false"}))),
            R"([{"name":"xla_tpu_rwb_fusion","value":false,"origin":"recipe"}])");
  EXPECT_EQ(to_text(resolve({})), "");
}

TEST(FlagsTest, BothFormsCarryEveryFlag) {
  const ResolvedFlags flags =
      resolve({"xla_tpu_rwb_fusion=false", "xla_latency_hiding_scheduler_rerun=2", "xla_dump_to=/tmp/x"});
  EXPECT_EQ(
      environment_form(flags),
      std::pair(std::string("LIBTPU_INIT_ARGS"),
                std::string("--xla_tpu_rwb_fusion=false --xla_latency_hiding_scheduler_rerun=2 --xla_dump_to=/tmp/x")));
  const auto overrides = override_form(flags);
  ASSERT_EQ(overrides.size(), 3U);
  EXPECT_EQ(overrides.at("xla_tpu_rwb_fusion"), TypedFlagValue(false));
  EXPECT_EQ(overrides.at("xla_latency_hiding_scheduler_rerun"), TypedFlagValue(int64_t{2}));
  EXPECT_EQ(overrides.at("xla_dump_to"), TypedFlagValue("/tmp/x"));
  EXPECT_EQ(environment_form(resolve({"cuda-deterministic"}, {.platform = PluginKind::cuda})).first, "XLA_FLAGS");
}

TEST(FlagsTest, ARawValueHasTheTypeItLooksLike) {
  const auto raw = override_form(resolve({"raw:a=true", "raw:b=-3", "raw:c=0.25", "raw:d=text", "raw:e="}));
  EXPECT_EQ(raw.at("a"), TypedFlagValue(true));
  EXPECT_EQ(raw.at("b"), TypedFlagValue(int64_t{-3}));
  EXPECT_EQ(raw.at("c"), TypedFlagValue(0.25));
  EXPECT_EQ(raw.at("d"), TypedFlagValue("text"));
  EXPECT_EQ(raw.at("e"), TypedFlagValue(""));
}

TEST(FlagsTest, TheEnvironmentKeepsWhatTheUserHasSet) {
  ::setenv("LIBTPU_INIT_ARGS", "--mine=1", 1);
  apply_to_environment(resolve({}));
  EXPECT_STREQ(::getenv("LIBTPU_INIT_ARGS"), "--mine=1");
  apply_to_environment(resolve({"xla_tpu_rwb_fusion=false"}));
  EXPECT_STREQ(::getenv("LIBTPU_INIT_ARGS"), "--mine=1 --xla_tpu_rwb_fusion=false");
  ::unsetenv("LIBTPU_INIT_ARGS");
  apply_to_environment(resolve({"xla_tpu_rwb_fusion=false"}));
  EXPECT_STREQ(::getenv("LIBTPU_INIT_ARGS"), "--xla_tpu_rwb_fusion=false");
  ::unsetenv("LIBTPU_INIT_ARGS");
}

TEST(FlagsTest, UnknownNamesGetTheNearestOne) {
  expect_refusal({"xla_tpu_scoped_vmem_limit_kb=98304"}, "did you mean 'xla_tpu_scoped_vmem_limit_kib'?");
  expect_refusal({"v6e-dens"}, "did you mean 'v6e-dense'?");
  expect_refusal({"something_else_entirely=1"}, "raw:something_else_entirely=1 hands it over unchecked");
  expect_refusal({"xla_tpu_rwb_fusion"}, "write xla_tpu_rwb_fusion=true");
}

TEST(FlagsTest, ValuesOfAnotherTypeAreRefused) {
  expect_refusal({"xla_tpu_rwb_fusion=1"}, "wanted: true or false");
  expect_refusal({"xla_tpu_scoped_vmem_limit_kib=96M"}, "wanted: an integer");
  expect_refusal({"xla_tpu_aggressive_opt_barrier_removal=ENABLE"}, "did you mean 'ENABLED'?");
  expect_refusal({"xla_dump_to=/tmp/a folder"}, "a value with a space");
  expect_refusal({"raw:--xla_x=1"}, "without dashes");
  expect_refusal({"raw:xla_x"}, "raw:name=value");
}

TEST(FlagsTest, OtherPlatformsAndGenerationsAreRefused) {
  expect_refusal({"xla_gpu_autotune_level=4"}, "the plugin is tpu");
  expect_refusal({"v6e-dense"}, "the plugin is cpu", {.platform = PluginKind::cpu});
  expect_refusal({"v7x-sparse-core"}, "the target is v6e");
  expect_refusal({"xla_tpu_enable_async_collective_fusion=true"}, "the target is v7x",
                 {.platform = PluginKind::tpu, .generation = "v7x"});
  EXPECT_FALSE(resolve({"v7x-sparse-core"}, {.platform = PluginKind::tpu}).flags.empty());
}

TEST(FlagsTest, AValueByNameBeatsAProfilesWhereverItStands) {
  for (const auto& entries : {std::vector<std::string>{"v6e-dense", "xla_tpu_scoped_vmem_limit_kib=1"},
                              std::vector<std::string>{"xla_tpu_scoped_vmem_limit_kib=1", "v6e-dense"}}) {
    const auto overrides = override_form(resolve(entries));
    EXPECT_EQ(overrides.at("xla_tpu_scoped_vmem_limit_kib"), TypedFlagValue(int64_t{1}));
    EXPECT_EQ(overrides.size(), profile_named("v6e-dense").values.size());
  }
}

TEST(FlagsTest, ContradictionsAreRefusedUnlessSettled) {
  expect_refusal({"v6e-dense", "v6e-moe"}, "profile v6e-dense says 98304, profile v6e-moe says 81920");
  EXPECT_FALSE(resolve({"v6e-dense", "v6e-moe", "xla_tpu_scoped_vmem_limit_kib=81920"}).flags.empty());
  expect_refusal({"xla_tpu_rwb_fusion=true", "xla_tpu_rwb_fusion=true"}, "given twice");
  expect_refusal({"v6e-continuation-fusion", "v6e-sparse-core-all-reduce"},
                 "xla_tpu_enable_async_collective_fusion_fuse_all_reduce");
  EXPECT_FALSE(resolve({"v6e-dense", "v6e-sparse-core-all-reduce", "host-offload"}).flags.empty());
}

TEST(FlagsTest, ACollectiveIsNotFusedAndOffloadedAtOnce) {
  for (const std::string collective : {"all_gather", "all_reduce", "reduce_scatter"}) {
    expect_refusal({"xla_tpu_enable_async_collective_fusion_fuse_" + collective + "=true",
                    "xla_tpu_enable_sparse_core_collective_offload_" + collective + "=true"},
                   "one of the two");
  }
}

TEST(FlagsTest, TopologiesNameTheirGeneration) {
  EXPECT_EQ(generation_of_topology("v6e:16x16"), "v6e");
  EXPECT_EQ(generation_of_topology("v5:2x2x1"), "v5p");
  EXPECT_EQ(generation_of_topology("v5e:4x4"), "v5e");
  EXPECT_EQ(generation_of_topology("tpu7x:2x2x1"), "v7x");
  EXPECT_EQ(generation_of_topology("h100"), "");
}

}  // namespace
}  // namespace megacpp::runtime::plugins
