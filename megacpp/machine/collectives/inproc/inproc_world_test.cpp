// SPDX-License-Identifier: Apache-2.0
// What only the in-process transport promises; the rest is in communicator_conformance_test and
// communicator_failure_test.
#include "megacpp/machine/collectives/inproc/inproc_world.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/support/errors.h"
#include "tests/support/transports.h"

namespace {

thread_local int64_t heap_allocations = 0;

}  // namespace

// The whole program's heap, so that an allocation is found wherever it hides. Kept out of line: otherwise the compiler
// sees new paired with free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++heap_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++heap_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace megacpp::collectives {
namespace {

TEST(InprocWorldTest, NothingIsAllocatedAfterTheGroupsAreMade) {
  const auto outcomes = testing_support::run_on(inproc_transport(), {.chips = 3}, [](Communicator& c) {
    const Group& group = c.create_group({0, 1, 2});
    std::vector<float> in(999);
    const auto call = [&](Kind kind, const char* where) {
      return Call{.kind = kind, .group = &group, .parts = {{.in = in.data(), .shape = {999}}}, .where = where};
    };
    std::array calls = {call(Kind::all_reduce, "a"), call(Kind::all_gather, "b"), call(Kind::reduce_scatter, "c"),
                        call(Kind::all_to_all, "d"), call(Kind::permute, "e"),    call(Kind::send, "f"),
                        call(Kind::recv, "g")};
    std::vector<std::vector<float>> results(calls.size(), std::vector<float>(3 * 999));
    for (size_t i = 0; i < calls.size(); ++i) {
      calls[i].parts[0].out = results[i].data();
      calls[i].peer = (c.rank() + (calls[i].kind == Kind::send ? 1 : 2)) % 3;
    }
    std::array<Ticket, calls.size()> tickets;
    const int64_t before = heap_allocations;
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < calls.size(); ++i) tickets[i] = c.start(calls[i], kHostThread);
      for (const Ticket ticket : tickets) c.finish(ticket, kHostThread);
    }
    EXPECT_EQ(heap_allocations, before);
  });
  for (const auto& error : outcomes) EXPECT_FALSE(error) << error->what();
}

TEST(InprocWorldTest, TheWorldMayBeStoppedFromOutside) {
  InprocWorld world({.chips = 2});
  EXPECT_EQ(world.chips(), 2);
  std::thread waiting([&] {
    Communicator& c = world.communicator(0);
    float data = 1;
    const Call call = {.kind = Kind::all_reduce,
                       .group = &c.create_group({0, 1}),
                       .parts = {{.in = &data, .out = &data}},
                       .where = "sum"};
    const base::Problem problem = testing_support::problem_of(base::Code::E3101, [&] { c.run(call, kHostThread); });
    EXPECT_EQ(problem.where, "chip 0, sum");
    EXPECT_EQ(problem.got, "chip 1 failed: its thread is gone");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  world.abort(1, "its thread is gone");
  waiting.join();
}

}  // namespace
}  // namespace megacpp::collectives
