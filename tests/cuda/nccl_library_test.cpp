// SPDX-License-Identifier: Apache-2.0
// Finding and refusing NCCL, and its failures in words, on a library that stands in for it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "megacpp/machine/cuda/nccl.h"
#include "tests/support/errors.h"
#include "tests/support/stand_in_nccl.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::runtime::cuda {
namespace {

using base::Code;
using testing_support::problem_of;

class NcclLibraryTest : public ::testing::Test {
 protected:
  NcclLibraryTest() {
    std::filesystem::copy_file(std::filesystem::path(MEGACPP_STAND_IN_CUDA) / "libnccl.so.2", folder_ / "libnccl.so.2");
    void* const library = ::dlopen((folder_ / "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
    MEGACPP_CHECK(library != nullptr) << ::dlerror();
    state_ = reinterpret_cast<stand_in_nccl::GetState*>(::dlsym(library, "megacpp_stand_in_nccl"))();
  }
  Library library() const { return open_library(LibraryKind::nccl, {.folder = folder_.path()}); }

  testing_support::TemporaryFolder folder_;
  stand_in_nccl::State* state_ = nullptr;
};

TEST_F(NcclLibraryTest, SaysItsVersion) {
  EXPECT_EQ(Nccl(library()).version(), "2.28.9");
  EXPECT_EQ(version_of(library()), "2.28.9");
}

TEST_F(NcclLibraryTest, OneThatIsTooOldIsE1509WithThePackage) {
  state_->version = 21705;
  const base::Problem problem = problem_of(Code::E1509, [&] { Nccl nccl(library()); });
  EXPECT_EQ(problem.got, "NCCL 2.17.5");
  EXPECT_EQ(problem.wanted, "NCCL 2.18.0 or later");
  EXPECT_NE(problem.next.find("nvidia-nccl-cu13"), std::string::npos) << problem.next;
}

TEST_F(NcclLibraryTest, ProcessesThatItCannotConnectAreE3104InItsWords) {
  const Nccl nccl(library());
  NcclComm* const comm = nccl.join({.id = nccl.unique_id(), .rank = 0, .ranks = 2});
  EXPECT_EQ(state_->blocking.load(), 0);
  EXPECT_TRUE(nccl.is_ready(comm, "joining"));
  EXPECT_EQ(nccl.failure(comm), "");
  state_->result = 2;
  const base::Problem problem = problem_of(Code::E3104, [&] { nccl.unique_id(); });
  EXPECT_EQ(problem.where, "NCCL 2.28.9, ncclGetUniqueId");
  EXPECT_EQ(problem.got, "unhandled system error: socket closed");
  problem_of(Code::E3104, [&] { nccl.join({.id = {}, .rank = 0, .ranks = 2}); });
  problem_of(Code::E3104, [&] { nccl.end(); });
  EXPECT_EQ(nccl.failure(comm), "NCCL: unhandled system error: socket closed");
  EXPECT_EQ(problem_of(Code::E3104, [&] { nccl.is_ready(comm, "joining"); }).where, "NCCL 2.28.9, joining");
}

TEST_F(NcclLibraryTest, ACommunicatorIsReadyWhenItsOtherMembersHaveCome) {
  const Nccl nccl(library());
  state_->async = kNcclInProgress;
  NcclComm* const comm = nccl.join({.id = nccl.unique_id(), .rank = 0, .ranks = 2});
  EXPECT_FALSE(nccl.is_ready(comm, "joining"));
  EXPECT_EQ(nccl.failure(comm), "") << "to wait is no failure";
  state_->async = 0;
  EXPECT_TRUE(nccl.is_ready(comm, "joining"));
}

TEST_F(NcclLibraryTest, MemoryThatRanOutIsToldByItsWords) {
  const auto error = [](Code code, const std::string& got) { return base::Error(code, {.got = got}); };
  EXPECT_TRUE(is_out_of_memory(error(Code::E3104, "unhandled cuda error: Cuda failure 2 'out of memory'")));
  EXPECT_FALSE(is_out_of_memory(error(Code::E3104, "unhandled system error: socket closed")));
  EXPECT_FALSE(is_out_of_memory(error(Code::E3204, "out of memory")));
}

}  // namespace
}  // namespace megacpp::runtime::cuda
