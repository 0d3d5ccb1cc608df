// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/peers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

namespace megacpp::collectives {
namespace {

/// A process that does nothing, with the memory that this one has now.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      while (true) ::pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

TEST(PeerReadsTest, ManyPlacesOfAnotherProcessAreReadAsTheyWere) {
  std::vector<int32_t> source(5000);
  std::iota(source.begin(), source.end(), 0);
  Child child;
  const std::vector<int32_t> wanted = std::exchange(source, std::vector<int32_t>(source.size(), -1));
  std::vector<int32_t> read(wanted.size(), -2);
  const Peer peer = {.process = 1, .pid = child.pid()};
  PeerReads reads(peer);
  // Every other number, far more than one call of the kernel takes; then the rest, which lie side by side in pairs.
  const uint64_t first = address_of(wanted.data());
  for (size_t i = 0; i < read.size(); i += 2) reads.add(&read[i], first + i * sizeof(int32_t), sizeof(int32_t));
  for (size_t i = 1; i < read.size(); i += 2) {
    reads.add(&read[i], first + i * sizeof(int32_t), sizeof(int32_t) / 2);
    reads.add(reinterpret_cast<std::byte*>(&read[i]) + 2, first + i * sizeof(int32_t) + 2, sizeof(int32_t) / 2);
  }
  reads.flush();
  EXPECT_EQ(read, wanted);
}

TEST(PeerReadsTest, AProcessThatHasEndedIsNamed) {
  Child child;
  const Peer peer = {.process = 7, .pid = child.pid()};
  child.end();
  int32_t number = 0;
  PeerReads reads(peer);
  reads.add(&number, address_of(&number), sizeof(number));
  try {
    reads.flush();
    FAIL() << "read from nobody";
  } catch (const PeerGone& gone) {
    EXPECT_EQ(gone.process(), 7);
    EXPECT_TRUE(gone.has_ended());
    EXPECT_STREQ(gone.what(), "its memory cannot be read: No such process");
  }
}

TEST(PeersTest, WhoStatesItsMemoryIsANeighbour) {
  const std::unique_ptr<ProgressFlags> flags = make_own_flags();
  ASSERT_NE(flags, nullptr);
  const std::string statement = memory_statement(*flags);
  const std::optional<Neighbour> found = find_neighbour(3, statement);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->peer.process, 3);
  EXPECT_EQ(found->peer.pid, ::getpid());
}

TEST(PeersTest, WhoIsNotWhatItStatesIsNone) {
  const std::unique_ptr<ProgressFlags> flags = make_own_flags();
  const std::string statement = memory_statement(*flags);
  EXPECT_FALSE(find_neighbour(1, ""));
  EXPECT_FALSE(find_neighbour(1, "another-kernel" + statement.substr(statement.find(' '))));
  Child child;
  const pid_t ended = child.pid();
  child.end();
  std::istringstream words(statement);
  std::string kernel, pid, address, token, file;
  words >> kernel >> pid >> address >> token >> file;
  const auto stated = [&](const std::string& whose, const std::string& number) {
    return kernel + " " + whose + " " + address + " " + number + " " + file;
  };
  EXPECT_TRUE(find_neighbour(1, stated(pid, token)));
  EXPECT_FALSE(find_neighbour(1, stated(std::to_string(ended), token))) << "it has ended";
  EXPECT_FALSE(find_neighbour(1, stated(pid, token + "1"))) << "another process has its number";
  EXPECT_FALSE(find_neighbour(1, statement + "9")) << "another file than its flags";
}

TEST(PeersTest, LeaveToBeReadIsGivenWhereTheKernelWantsItAndToALauncherAlone) {
  struct Row {
    std::string ptrace_scope;  // empty: a kernel without it
    pid_t launcher;
    bool is_given;
  };
  for (const Row& row : {Row{"1", 4711, true}, Row{"1", 1, false}, Row{"1", 0, false}, Row{"", 4711, false},
                         Row{"0", 4711, false}, Row{"2", 4711, false}, Row{"3", 4711, false}})
    EXPECT_EQ(needs_leave_to_be_read(row.ptrace_scope, row.launcher), row.is_given)
        << row.ptrace_scope << ", launcher " << row.launcher;
}

TEST(ProgressFlagsTest, GatesOfACallAreSeenThroughTheOthersView) {
  const std::unique_ptr<ProgressFlags> flags = make_own_flags();
  const std::optional<Neighbour> self = find_neighbour(0, memory_statement(*flags));
  ASSERT_TRUE(self);
  EXPECT_EQ(self->flags->find_group(42), nullptr);
  ProgressFlag* const own = flags->add_group(42);
  const ProgressFlag* const seen = self->flags->find_group(42);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen[0].gates(0), 0);
  own[0].open(0, {.hash = 5, .addresses = {.address = 6, .hash = 7}});
  EXPECT_EQ(seen[0].gates(0), 1);
  EXPECT_EQ(seen[0].call().hash, 5u);
  EXPECT_EQ(seen[0].call().addresses.address, 6u);
  own[0].pass(0, 3);
  EXPECT_EQ(seen[0].gates(0), 3);
  const auto later = static_cast<int64_t>(kGroupFlags);  // the same slot again
  EXPECT_EQ(seen[0].gates(later), 0);
  own[0].open(later, {});
  EXPECT_EQ(seen[0].gates(later), 1);
  EXPECT_EQ(seen[0].gates(0), 0);
}

TEST(ProgressFlagsTest, ABoardThatIsFullTakesNoMoreGroups) {
  const std::unique_ptr<ProgressFlags> flags = make_own_flags();
  for (size_t i = 0; i < ProgressFlagsLayout::kGroups; ++i) ASSERT_NE(flags->add_group(i), nullptr);
  EXPECT_EQ(flags->add_group(ProgressFlagsLayout::kGroups), nullptr);
}

int64_t blocks_of(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 ? static_cast<int64_t>(status.st_blocks) : -1;
}

TEST(ProgressFlagsTest, CallsOfAGroupTakeNoMemoryThatItsSlotsHaveNotTaken) {
  const std::unique_ptr<ProgressFlags> flags = make_own_flags();
  ProgressFlag* const slots = flags->add_group(42);
  const int64_t made = blocks_of(flags->file());
  ASSERT_GT(made, 0);
  for (size_t i = 0; i < kGroupFlags; ++i) slots[i].open(static_cast<int64_t>(i), {.hash = i, .addresses = {}});
  EXPECT_EQ(blocks_of(flags->file()), made);
}

// A list is read once, and again when it says something else.
TEST(BufferAddressesTest, ListsAreReadWhenTheyAreNew) {
  int32_t a = 0, b = 0, c = 0;
  Call call;
  call.parts = {{.in = &a, .out = &b}, {.in = &c, .out = &c}};
  const std::vector<const Call*> calls = {nullptr, &call};
  const std::vector<int64_t> members = {1};
  PublishedAddresses published;
  const AddressList list = published.publish(calls, members);
  ReadAddresses read;
  const Peer self = {.process = 0, .pid = ::getpid()}, nobody = {.process = 0, .pid = -1};
  const auto buffers = read.look_up(self, list, 2);
  EXPECT_EQ(buffers[0].in, address_of(&a));
  EXPECT_EQ(buffers[0].out, address_of(&b));
  EXPECT_EQ(buffers[1].in, address_of(&c));
  EXPECT_EQ(read.look_up(nobody, list, 2)[0].in, address_of(&a)) << "known without a look";
  call.parts[0].in = &c;
  const AddressList changed = published.publish(calls, members);
  EXPECT_EQ(changed.address, list.address);
  EXPECT_THROW(read.look_up(nobody, changed, 2), PeerGone);
  EXPECT_EQ(read.look_up(self, changed, 2)[0].in, address_of(&c));
}

}  // namespace
}  // namespace megacpp::collectives
