// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cubin_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::runtime::cuda {
namespace {

using testing_support::TemporaryFolder;

const std::vector<char> kCubin = {'\x7f', 'E', 'L', 'F', '\0', 'x'};

TEST(CubinCacheTest, KeepsWhatACompilerMadeOfASource) {
  const TemporaryFolder folder;
  CubinCache cache(folder / "cubins", "NVRTC 13.0 sm_90a");
  EXPECT_FALSE(cache.find("source"));
  cache.keep("source", kCubin);
  EXPECT_EQ(cache.find("source"), kCubin);
  EXPECT_EQ(CubinCache(folder / "cubins", "NVRTC 13.0 sm_90a").find("source"), kCubin);
  EXPECT_FALSE(cache.find("other source"));
  EXPECT_FALSE(CubinCache(folder / "cubins", "NVRTC 13.1 sm_90a").find("source"));
}

TEST(CubinCacheTest, TrustsNoDamagedAndNoForeignEntry) {
  const TemporaryFolder folder;
  CubinCache cache(folder.path(), "compiler");
  cache.keep("source", kCubin);
  const std::string whole = base::read_file(cache.entry("source"));
  for (const std::string& damaged : {whole.substr(0, whole.size() - 1), whole + "x", whole.substr(0, 20),
                                     whole.substr(0, whole.size() - 1) + "y", std::string()}) {
    std::ofstream(cache.entry("source"), std::ios::binary) << damaged;
    EXPECT_FALSE(cache.find("source"));
  }
  std::ofstream(cache.entry("other source"), std::ios::binary) << whole;
  EXPECT_FALSE(cache.find("other source"));
  cache.keep("source", kCubin);
  EXPECT_EQ(cache.find("source"), kCubin) << "a damaged entry is replaced";
}

TEST(CubinCacheTest, AFolderThatCannotBeWrittenCostsNoRun) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  CubinCache cache(folder / "file/cubins", "compiler");
  cache.keep("source", kCubin);
  EXPECT_FALSE(cache.find("source"));
  CubinCache nowhere("", "compiler");
  nowhere.keep("source", kCubin);
  EXPECT_FALSE(nowhere.find("source"));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
