// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_fetch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "tests/support/make_wheel.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;

std::string times_thousand(const std::string& text) {
  std::string all;
  for (int i = 0; i < 1000; ++i) all += text;
  return all;
}

class PluginFetchTest : public testing::Test {
 protected:
  PluginFetchTest() : folder_(fs::temp_directory_path() / ("megacpp_fetch_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    around_.variables["XDG_CACHE_HOME"] = folder_ / "cache";
  }
  ~PluginFetchTest() override { fs::remove_all(folder_); }

  FetchRequest request(PluginKind kind, const fs::path& wheel) const {
    return {.kind = kind, .wheel = wheel, .machine = "x86_64", .surroundings = around_};
  }
  /// A wheel with these entries, each text a thousand times.
  fs::path make_wheel(const std::string& name, const std::vector<std::pair<std::string, std::string>>& entries) const {
    std::vector<testing_support::WheelEntry> all;
    for (const auto& [entry, text] : entries) all.push_back({.path = entry, .text = times_thousand(text)});
    return testing_support::make_wheel(folder_ / name, all);
  }
  /// Every file of the cache, by its path in it.
  std::vector<std::string> cached() const {
    std::vector<std::string> files;
    if (!fs::exists(folder_ / "cache")) return files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache"))
      if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), folder_ / "cache").string());
    std::sort(files.begin(), files.end());
    return files;
  }
  base::Error failure(const FetchRequest& wanted) const {
    try {
      fetch_plugin(wanted);
    } catch (const base::Error& error) {
      return error;
    }
    ADD_FAILURE() << "fetched";
    return base::Error(base::Code::E9001, {});
  }

  fs::path folder_;
  Surroundings around_;
};

TEST_F(PluginFetchTest, OnlyLibraryHeaderAndVersionReachTheCache) {
  const fs::path wheel =
      make_wheel("xla_cpu_pjrt-1.2.3-py3-none-any.whl", {{"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "library"},
                                                         {"xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h", "header"},
                                                         {"xla_plugins/xla_cpu_pjrt/__init__.py", "other"}});
  std::vector<std::string> told;
  FetchRequest wanted = request(PluginKind::cpu, wheel);
  wanted.on_progress = [&](const std::string& what, int64_t) { told.push_back(what); };
  const FetchedPlugin fetched = fetch_plugin(wanted);
  EXPECT_EQ(cached(), (std::vector<std::string>{"megacpp/plugins/cpu/VERSION", "megacpp/plugins/cpu/pjrt_c_api.h",
                                                "megacpp/plugins/cpu/xla_cpu_pjrt.so"}));
  EXPECT_EQ(base::read_file(fetched.library), times_thousand("library"));
  EXPECT_EQ(base::read_file(fetched.header), times_thousand("header"));
  EXPECT_EQ(fetched.version, "1.2.3");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0], "unpacking xla_cpu_pjrt-1.2.3-py3-none-any.whl");
  const PluginPlace found = find_plugin(PluginKind::cpu, {}, around_);
  EXPECT_EQ(found.file, fetched.library);
  EXPECT_EQ(found.version, "1.2.3");
}

TEST_F(PluginFetchTest, AFetchReplacesTheOneBeforeAndWhatAKilledOneLeft) {
  fetch_plugin(request(PluginKind::tpu, make_wheel("libtpu-1.0-py3-none-any.whl", {{"libtpu/libtpu.so", "one"}})));
  fs::create_directories(folder_ / "cache/megacpp/plugins/.fetch-tpu/wheels");
  std::ofstream(folder_ / "cache/megacpp/plugins/.fetch-tpu/wheels/half") << "half";
  const FetchedPlugin second =
      fetch_plugin(request(PluginKind::tpu, make_wheel("libtpu-2.0-py3-none-any.whl", {{"libtpu/libtpu.so", "two"}})));
  EXPECT_EQ(base::read_file(second.library), times_thousand("two"));
  EXPECT_TRUE(second.header.empty());
  EXPECT_EQ(cached(), (std::vector<std::string>{"megacpp/plugins/tpu/VERSION", "megacpp/plugins/tpu/libtpu.so"}));
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).version, "2.0");
}

TEST_F(PluginFetchTest, ABadWheelLeavesNothingBehindAndTheOldPluginInPlace) {
  const fs::path good = make_wheel("libtpu-1.0-py3-none-any.whl", {{"libtpu/libtpu.so", "one"}});
  const fs::path other = make_wheel("other-1.0-py3-none-any.whl", {{"other/other.so", "one"}});
  const std::string bytes = base::read_file(good);
  const fs::path half = folder_ / "libtpu-3.0-py3-none-any.whl";
  std::ofstream(half) << bytes.substr(0, bytes.size() / 2);
  // The checksum in the archive's directory is another than that of the library.
  std::string damaged = bytes;
  const size_t checksum = damaged.find("PK\x01\x02") + 16;
  damaged[checksum] = static_cast<char>(damaged[checksum] ^ 0x55);
  const fs::path bad_sum = folder_ / "libtpu-4.0-py3-none-any.whl";
  std::ofstream(bad_sum) << damaged;

  for (const fs::path& wheel : {other, half, bad_sum}) {
    EXPECT_EQ(failure(request(PluginKind::tpu, wheel)).code(), base::Code::E3203) << wheel;
    EXPECT_TRUE(cached().empty()) << wheel;
  }
  const base::Error missing = failure(request(PluginKind::tpu, other));
  EXPECT_NE(std::string(missing.what()).find("libtpu/libtpu.so"), std::string::npos) << missing.what();

  fetch_plugin(request(PluginKind::tpu, good));
  failure(request(PluginKind::tpu, half));
  EXPECT_EQ(base::read_file(find_plugin(PluginKind::tpu, {}, around_).file), times_thousand("one"));
  EXPECT_EQ(failure(request(PluginKind::tpu, folder_ / "none.whl")).code(), base::Code::E1008);
}

TEST_F(PluginFetchTest, AnotherMachinesPluginIsRefusedBeforeAnythingIsDone) {
  FetchRequest wanted = request(PluginKind::tpu, {});
  wanted.machine = "aarch64";
  const base::Error error = failure(wanted);
  EXPECT_EQ(error.code(), base::Code::E3203);
  EXPECT_NE(std::string(error.what()).find("this machine is aarch64"), std::string::npos) << error.what();
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(PluginFetchTest, UnknownPackagesGetTheNearestOne) {
  FetchRequest wanted = request(PluginKind::cuda, {});
  wanted.package = "jax-cuda12-pjr";
  const base::Error error = failure(wanted);
  EXPECT_EQ(error.code(), base::Code::E1007);
  EXPECT_NE(std::string(error.what()).find("did you mean 'jax-cuda12-pjrt'?"), std::string::npos) << error.what();
}

// A python3 of the test's own stands for pip without a network, and for pip that brings a wheel.
TEST_F(PluginFetchTest, PipsWordsComeWithTheFailureAndItsWheelIsUsed) {
  const fs::path wheel = make_wheel("libtpu-5.0-py3-none-any.whl", {{"libtpu/libtpu.so", "five"}});
  const std::string real_path = ::getenv("PATH");
  const fs::path bin = folder_ / "bin";
  fs::create_directories(bin);
  const auto stand_in = [&](const std::string& script) {
    std::ofstream(bin / "python3") << "#!/bin/sh\n" << script;
    fs::permissions(bin / "python3", fs::perms::owner_all);
    ::setenv("PATH", (bin.string() + ":" + real_path).c_str(), 1);
  };

  stand_in("echo 'ERROR: no network'; exit 1\n");
  const base::Error error = failure(request(PluginKind::tpu, {}));
  stand_in("while [ $# -gt 0 ]; do [ \"$1\" = -d ] && { mkdir -p \"$2\"; cp '" + wheel.string() +
           "' \"$2\"; }; last=$1; shift; done\n[ \"$last\" = libtpu==5.0 ]\n");
  FetchRequest versioned = request(PluginKind::tpu, {});
  versioned.version = "5.0";
  const FetchedPlugin fetched = fetch_plugin(versioned);
  ::setenv("PATH", real_path.c_str(), 1);

  EXPECT_EQ(error.code(), base::Code::E3203);
  EXPECT_NE(std::string(error.what()).find("pip says: ERROR: no network"), std::string::npos) << error.what();
  EXPECT_EQ(fetched.version, "5.0");
  EXPECT_EQ(base::read_file(fetched.library), times_thousand("five"));
}

}  // namespace
}  // namespace megacpp::runtime::plugins
