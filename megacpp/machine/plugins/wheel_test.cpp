// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/wheel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "megacpp/core/base/file.h"
#include "tests/support/errors.h"
#include "tests/support/make_wheel.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;
using base::Code;
using testing_support::make_wheel;
using testing_support::Packing;
using testing_support::problem_of;
using testing_support::WheelEntry;

class WheelTest : public testing::Test {
 protected:
  WheelTest() : folder_(fs::temp_directory_path() / ("megacpp_wheel_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WheelTest() override { fs::remove_all(folder_); }

  fs::path wheel(const std::vector<WheelEntry>& entries, Packing packing = Packing::deflated) const {
    return make_wheel(folder_ / "a-1.0-py3-none-any.whl", entries, packing);
  }
  fs::path bytes_as_wheel(const std::string& bytes) const {
    std::ofstream(folder_ / "b.whl", std::ios::binary) << bytes;
    return folder_ / "b.whl";
  }
  WheelRequest request(const fs::path& file) const {
    return {.wheel = file, .entries = {"a/lib.so"}, .folder = folder_ / "out"};
  }
  /// What is said of a wheel that has to be refused.
  std::string refused(const WheelRequest& request) const {
    return problem_of(Code::E3203, [&] { unpack_wheel(request); }).got;
  }
  std::string refused(const fs::path& file) const { return refused(request(file)); }

  fs::path folder_;
};

std::string noise(size_t bytes) {
  std::string text;
  for (uint32_t state = 1; text.size() < bytes; state = state * 1664525u + 1013904223u)
    text += static_cast<char>(state >> 24);
  return text;
}

TEST_F(WheelTest, OnlyTheNamedEntriesAreTaken) {
  const std::string library = noise(5'000'000);  // more than a block
  for (const Packing packing : {Packing::deflated, Packing::stored}) {
    unpack_wheel(request(wheel({{"a/__init__.py", "other"}, {"a/lib.so", library}, {"a/lib.so.txt", "x"}}, packing)));
    EXPECT_EQ(base::read_file(folder_ / "out/a/lib.so"), library);
    EXPECT_FALSE(fs::exists(folder_ / "out/a/__init__.py"));
    EXPECT_FALSE(fs::exists(folder_ / "out/a/lib.so.txt"));
    fs::remove_all(folder_ / "out");
  }
}

TEST_F(WheelTest, AMissingEntryIsNamed) { EXPECT_EQ(refused(wheel({{"a/lib.s", "x"}})), "no entry 'a/lib.so'"); }

TEST_F(WheelTest, PathsThatLeadOutAreRefusedAndNothingIsWrittenThere) {
  EXPECT_NE(refused(wheel({{"../evil.so", "x"}, {"a/lib.so", "x"}})).find("'../evil.so'"), std::string::npos);
  EXPECT_NE(refused(wheel({{"a/../../evil.so", "x"}, {"a/lib.so", "x"}})).find("leads out"), std::string::npos);
  EXPECT_NE(refused(wheel({{"/tmp/evil.so", "x"}, {"a/lib.so", "x"}})).find("leads out"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "evil.so"));
}

TEST_F(WheelTest, ALinkIsNoPlainFile) {
  EXPECT_EQ(refused(wheel({{.path = "a/lib.so", .link = "/etc/passwd"}})), "'a/lib.so' that is no plain file");
  EXPECT_FALSE(fs::exists(folder_ / "out/a/lib.so"));
}

TEST_F(WheelTest, AnEntryGivenTwiceIsRefused) {
  EXPECT_EQ(refused(wheel({{"a/lib.so", "one"}, {"a/lib.so", "two"}})), "'a/lib.so' twice");
}

TEST_F(WheelTest, AnEntryLargerThanAllowedIsRefused) {
  WheelRequest small = request(wheel({{"a/lib.so", std::string(10'000, 'x')}}));
  small.largest_entry = 9'999;
  EXPECT_EQ(refused(small), "'a/lib.so' of more than 9999 bytes");
  small.largest_entry = 10'000;
  unpack_wheel(small);
}

TEST_F(WheelTest, DamageIsFoundWhereverItIs) {
  const std::string stored = base::read_file(wheel({{"a/lib.so", "one two three"}}, Packing::stored));
  std::string other = stored;
  other[other.find("two")] = 'T';
  EXPECT_NE(refused(bytes_as_wheel(other)).find("CRC"), std::string::npos);

  const std::string packed = base::read_file(wheel({{"a/lib.so", noise(4'000)}}));
  std::string turned = packed;
  turned[2'000] = static_cast<char>(turned[2'000] ^ 0x55);
  refused(bytes_as_wheel(turned));
  for (const size_t size : {size_t{0}, size_t{3}, packed.size() / 2, packed.size() - 1})
    refused(bytes_as_wheel(packed.substr(0, size)));
  refused(bytes_as_wheel(noise(1'000)));
}

TEST_F(WheelTest, AFileThatCannotBeWrittenIsAnErrorOfTheDisk) {
  base::write_file_atomically(folder_ / "out", "a file where the folder should be");
  const fs::path file = wheel({{"a/lib.so", "x"}});
  problem_of(Code::E3001, [&] { unpack_wheel(request(file)); });
}

}  // namespace
}  // namespace megacpp::runtime::plugins
