// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_places.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;

/// A machine of its own: a root folder, a home, and no Python but what a case puts there.
class PluginPlacesTest : public testing::Test {
 protected:
  PluginPlacesTest() : root_(fs::temp_directory_path() / ("megacpp_places_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    around_.root = fs::canonical(root_);
    root_ = around_.root;
    around_.variables["HOME"] = root_ / "home";
  }
  ~PluginPlacesTest() override { fs::remove_all(root_); }

  fs::path put(const fs::path& relative, const std::string& text = "x") {
    const fs::path file = root_ / relative;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }
  std::string refusal(PluginKind kind, const fs::path& named = {}) const {
    try {
      return "found " + find_plugin(kind, named, around_).file.string();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::E1501);
      return error.what();
    }
  }

  fs::path root_;
  Surroundings around_;
};

TEST_F(PluginPlacesTest, EveryKindHasItsRecord) {
  std::set<std::string> names;
  for (const PluginKindInfo& info : plugin_kinds()) {
    EXPECT_EQ(&info_of(info.kind), &info);
    EXPECT_EQ(kind_named(info.name), info.kind);
    EXPECT_FALSE(info.variables.empty());
    EXPECT_FALSE(info.packages.empty());
    EXPECT_FALSE(info.library.empty());
    EXPECT_FALSE(info.note.empty());
    EXPECT_TRUE(names.insert(info.name).second);
  }
  EXPECT_EQ(kind_named("gpu"), std::nullopt);
}

TEST_F(PluginPlacesTest, APathComesBeforeAVariableBeforeTheCacheBeforePackages) {
  const fs::path package = put("usr/lib/python3.11/dist-packages/libtpu/libtpu.so");
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).file, package);
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).source, "package libtpu");

  const fs::path cached = put("home/.cache/megacpp/plugins/tpu/libtpu.so");
  put("home/.cache/megacpp/plugins/tpu/VERSION", "package libtpu\nversion 0.0.48.1\n");
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).file, cached);
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).version, "0.0.48.1");

  const fs::path second = put("second.so");
  around_.variables["TPU_LIBRARY_PATH"] = second;
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).file, second);
  const fs::path first = put("first.so");
  around_.variables["MEGACPP_PJRT_TPU"] = first;
  EXPECT_EQ(find_plugin(PluginKind::tpu, {}, around_).file, first);

  const fs::path named = put("named.so");
  EXPECT_EQ(find_plugin(PluginKind::tpu, named, around_).file, named);
}

TEST_F(PluginPlacesTest, TheCacheFollowsXdg) {
  EXPECT_EQ(cache_folder(PluginKind::cpu, around_), root_ / "home/.cache/megacpp/plugins/cpu");
  around_.variables["XDG_CACHE_HOME"] = "/elsewhere";
  EXPECT_EQ(cache_folder(PluginKind::cuda, around_), "/elsewhere/megacpp/plugins/cuda");
  around_.variables.clear();
  EXPECT_THROW(cache_folder(PluginKind::cpu, around_), base::Error);
}

TEST_F(PluginPlacesTest, PackagesAreFoundInEveryKindOfInstallation) {
  const std::string library = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so";
  const auto found = [&] { return find_plugin(PluginKind::cpu, {}, around_).file; };

  const fs::path debian = put("usr/lib/python3/dist-packages/" + library);
  EXPECT_EQ(found(), debian);
  const fs::path local = put("usr/local/lib/python3.10/dist-packages/" + library);
  EXPECT_EQ(found(), local);
  const fs::path user = put("home/.local/lib/python3.9/site-packages/" + library);
  EXPECT_EQ(found(), user);
  const fs::path newer = put("home/.local/lib/python3.12/site-packages/" + library);
  EXPECT_EQ(found(), newer);

  put("pyenv/shims/python3");
  const fs::path pyenv = put("pyenv/versions/3.11.7/lib/python3.11/site-packages/" + library);
  around_.variables["PATH"] = "/no/such:" + (root_ / "pyenv/shims").string();
  EXPECT_EQ(found(), pyenv);

  put("conda/bin/python3");
  const fs::path conda = put("conda/lib/python3.13/site-packages/" + library);
  around_.variables["PATH"] = (root_ / "conda/bin").string() + ":" + (root_ / "pyenv/shims").string();
  EXPECT_EQ(found(), conda);

  const fs::path venv = put("venv/lib/python3.8/site-packages/" + library);
  around_.variables["VIRTUAL_ENV"] = root_ / "venv";
  EXPECT_EQ(found(), venv);
}

TEST_F(PluginPlacesTest, VersionsComeFromTheNamesOfPackageFolders) {
  const std::string packages = "usr/local/lib/python3.12/dist-packages/";
  put(packages + "jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  put(packages + "jax_cuda12_pjrt-0.11.2.dist-info/METADATA");
  const PluginPlace place = find_plugin(PluginKind::cuda, {}, around_);
  EXPECT_EQ(place.source, "package jax-cuda12-pjrt");
  EXPECT_EQ(place.version, "0.11.2");
}

TEST_F(PluginPlacesTest, TheActiveEnvironmentsPackageComesBeforeAPreferredOneElsewhere) {
  put("usr/local/lib/python3.12/dist-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const fs::path mine = put("venv/lib/python3.12/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  around_.variables["VIRTUAL_ENV"] = root_ / "venv";
  EXPECT_EQ(find_plugin(PluginKind::cuda, {}, around_).file, mine);
}

TEST_F(PluginPlacesTest, NothingFoundNamesThePlacesAndTheFetchCommand) {
  fs::create_directories(root_ / "usr/lib/python3/dist-packages");
  const std::string said = refusal(PluginKind::tpu);
  for (const char* part : {"megacpp/plugins/tpu/libtpu.so", "no package libtpu in", "usr/lib/python3/dist-packages",
                           "megacpp plugins fetch tpu", "x86_64 only", "MEGACPP_PJRT_TPU"})
    EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
}

TEST_F(PluginPlacesTest, AFileThatWasNamedIsNotReplacedByAnother) {
  put("home/.cache/megacpp/plugins/cpu/xla_cpu_pjrt.so");
  EXPECT_NE(refusal(PluginKind::cpu, "/no/such.so").find("there is no file /no/such.so"), std::string::npos);
  around_.variables["MEGACPP_PJRT_CPU"] = "/neither/this.so";
  EXPECT_NE(refusal(PluginKind::cpu).find("MEGACPP_PJRT_CPU"), std::string::npos);
}

TEST_F(PluginPlacesTest, TheRecipeNamesAKindOrAFile) {
  EXPECT_EQ(choose_plugin("tpu").kind, PluginKind::tpu);
  EXPECT_TRUE(choose_plugin("tpu").named.empty());
  EXPECT_EQ(choose_plugin("/opt/libtpu.so").kind, PluginKind::tpu);
  EXPECT_EQ(choose_plugin("./xla_gpu_pjrt.so").kind, PluginKind::cuda);
  EXPECT_EQ(choose_plugin("mine.so").kind, PluginKind::cpu);
  EXPECT_EQ(choose_plugin("mine.so").named, "mine.so");
  try {
    choose_plugin("cda");
    FAIL() << "not refused";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cuda'?"), std::string::npos) << error.what();
  }
}

TEST_F(PluginPlacesTest, NeededVariablesLeaveTheUsersAlone) {
  ::unsetenv("TPU_SKIP_MDS_QUERY");
  ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "0", 1);
  set_ahead_of_time_environment(PluginKind::tpu);
  EXPECT_STREQ(::getenv("TPU_SKIP_MDS_QUERY"), "1");
  EXPECT_STREQ(::getenv("ALLOW_MULTIPLE_LIBTPU_LOAD"), "0");
  ::unsetenv("TPU_SKIP_MDS_QUERY");
  ::unsetenv("ALLOW_MULTIPLE_LIBTPU_LOAD");
}

}  // namespace
}  // namespace megacpp::runtime::plugins
