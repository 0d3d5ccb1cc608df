// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/plugin.h"

#include <gtest/gtest.h>

#include <thread>

#include "megacpp/core/base/file.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::cpu_plugin;
using testing_support::problem_of;

class PluginTest : public testing_support::CpuPluginTest {};

TEST_F(PluginTest, TellsItsVersions) {
  const Plugin& plugin = cpu_plugin();
  EXPECT_EQ(plugin.api_version().substr(0, 2), "0.");
  const auto* stablehlo = find<std::vector<int64_t>>(plugin.attributes(), "stablehlo_current_version");
  ASSERT_NE(stablehlo, nullptr);
  EXPECT_EQ(stablehlo->size(), 3u);
  EXPECT_NE(find<std::vector<int64_t>>(plugin.attributes(), "stablehlo_minimum_version"), nullptr);
  EXPECT_NE(find<int64_t>(plugin.attributes(), "xla_version"), nullptr);
  EXPECT_NE(plugin.identity().find("stablehlo_current_version=["), std::string::npos) << plugin.identity();
}

TEST_F(PluginTest, AFileIsLoadedOnceHoweverItIsNamed) {
  const std::filesystem::path file = MEGACPP_PJRT_CPU_PLUGIN;
  const Plugin* other = nullptr;
  std::thread thread([&] { other = &Plugin::load(file.parent_path() / "." / file.filename()); });
  const Plugin* plugin = &cpu_plugin();
  thread.join();
  EXPECT_EQ(plugin, other);
}

TEST(PluginFileTest, AMissingFileIsNamed) {
  const base::Problem problem = problem_of(Code::E1501, [] { Plugin::load("/nowhere/plugin.so"); });
  EXPECT_EQ(problem.where, "/nowhere/plugin.so");
}

TEST(PluginFileTest, AFileThatIsNoLibraryKeepsTheLoadersWords) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "megacpp_no_library.so";
  base::write_file_atomically(file, std::string(4096, 'x'));
  const base::Problem problem = problem_of(Code::E1502, [&] { Plugin::load(file); });
  EXPECT_NE(problem.got.find("ELF"), std::string::npos) << problem.got;
}

// The loader maps what the headers name, and would end this process with a SIGBUS.
TEST(PluginFileTest, ALibraryThatWasCopiedInPartIsRefused) {
  const std::string whole = base::read_file("/proc/self/exe");
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "megacpp_half_library.so";
  for (const size_t bytes : {size_t{5}, size_t{40}, size_t{70}, size_t{4096}, whole.size() / 2}) {
    base::write_file_atomically(file, std::string_view(whole).substr(0, bytes));
    const base::Problem problem = problem_of(Code::E1502, [&] { Plugin::load(file); });
    EXPECT_NE(problem.got.find("ends after " + std::to_string(bytes)), std::string::npos) << problem.got;
  }
}

TEST_F(PluginTest, TheFirstMegabyteOfThePluginIsRefused) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "megacpp_half_plugin.so";
  constexpr size_t kMegabyte = 1 << 20;
  const base::MappedFile whole(MEGACPP_PJRT_CPU_PLUGIN);
  const std::span<const std::byte> part = whole.bytes().first(kMegabyte);
  base::write_file_atomically(file, std::span(&part, 1));
  const base::Problem problem = problem_of(Code::E1502, [&] { Plugin::load(file); });
  EXPECT_NE(problem.got.find("1048576 bytes"), std::string::npos) << problem.got;
}

TEST(PluginFileTest, ALibraryThatIsNoPluginIsRefused) {
  const base::Problem problem = problem_of(Code::E1502, [] { Plugin::load("/proc/self/exe"); });
  EXPECT_FALSE(problem.got.empty());
}

TEST(PluginFileTest, VersionsOutsideTheRangeAreRefused) {
  EXPECT_NO_THROW(require_version({0, kOldestApiMinor}, "p"));
  EXPECT_NO_THROW(require_version({0, 1000}, "p"));
  EXPECT_NE(problem_of(Code::E1503,
                       [] {
                         require_version({0, kOldestApiMinor - 1}, "p");
                       })
                .got.find("0.69"),
            std::string::npos);
  problem_of(Code::E1503, [] { require_version({1, 0}, "p"); });
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
