// SPDX-License-Identifier: Apache-2.0
// How long a collective between processes takes, ours and that of the MPI library itself, for bench/hosts:
//   mpirun -n 4 exchange_rate ours all_reduce 65536 1048576
// Each process has one chip. For every size, the bytes of an operand, the first process prints a line with the size and
// the seconds of a call: the mean of a loop, as the OSU micro-benchmarks take it.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "megacpp/machine/collectives/mpi/mpi_launch.h"
#include "megacpp/machine/collectives/mpi/mpi_transport.h"

namespace {

using megacpp::collectives::Call;
using megacpp::collectives::Communicator;
using megacpp::collectives::kHostThread;
using megacpp::collectives::Kind;
using megacpp::collectives::Transport;
using megacpp::collectives::World;

constexpr std::string_view kUsage = "usage: exchange_rate ours|mpi all_reduce|all_to_all BYTES ...\n";
constexpr int64_t kBytesOfANumber = sizeof(float);
constexpr int64_t kBytesOfALoop = int64_t{256} << 20;
constexpr int64_t kFewestCalls = 5, kMostCalls = 500;

struct Exchange {
  Kind kind = Kind::all_reduce;
  int64_t elements = 0;  // f32, of a process's operand
};

/// Calls `once` in a loop behind a barrier; seconds of one call.
double seconds_of(const Exchange& exchange, const std::function<void()>& once, const std::function<void()>& meet) {
  const int64_t bytes = std::max<int64_t>(exchange.elements, 1) * kBytesOfANumber;
  const int64_t calls = std::clamp(kBytesOfALoop / bytes, kFewestCalls, kMostCalls);
  for (int64_t i = 0; i < kFewestCalls; ++i) once();
  meet();
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) once();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  meet();
  return took.count() / static_cast<double>(calls);
}

double seconds_of_ours(const Transport& transport, World& world, const Exchange& exchange) {
  Communicator& chip = world.communicator(world.local_chips().front());
  std::vector<int64_t> members(static_cast<size_t>(world.chips()));
  std::iota(members.begin(), members.end(), int64_t{0});
  std::vector<float> in(static_cast<size_t>(exchange.elements), 1.0f), out(in.size());
  Call call;
  call.kind = exchange.kind;
  call.group = &chip.create_group(members);
  call.parts = {{.in = in.data(), .out = out.data(), .shape = {exchange.elements}}};
  call.where = "exchange_rate";
  std::vector<std::byte> workspace(static_cast<size_t>(transport.workspace_bytes(call, world.chips())));
  call.workspace = workspace.data();
  return seconds_of(
      exchange, [&] { chip.run(call, kHostThread); }, [&] { world.share("loop", ""); });
}

double seconds_of_mpi(int processes, const Exchange& exchange) {
  std::vector<float> in(static_cast<size_t>(exchange.elements), 1.0f), out(in.size());
  const int count = static_cast<int>(exchange.elements);
  const auto once = [&] {
    if (exchange.kind == Kind::all_reduce)
      MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
      MPI_Alltoall(in.data(), count / processes, MPI_FLOAT, out.data(), count / processes, MPI_FLOAT, MPI_COMM_WORLD);
  };
  return seconds_of(exchange, once, [] { MPI_Barrier(MPI_COMM_WORLD); });
}

void print(const Exchange& exchange, double seconds) {
  fmt::print("{} {:.9f}\n", exchange.elements * kBytesOfANumber, seconds);
  std::fflush(stdout);
}

void run_ours(const std::vector<Exchange>& exchanges) {
  const auto launch = megacpp::collectives::mpi_launch();
  const Transport transport = megacpp::collectives::transport_of_launch();
  const std::unique_ptr<World> world = transport.make({.chips = launch ? launch->processes : 1});
  for (const Exchange& exchange : exchanges) {
    const double seconds = seconds_of_ours(transport, *world, exchange);
    if (world->is_coordinator()) print(exchange, seconds);
  }
}

void run_mpi(const std::vector<Exchange>& exchanges) {
  int process = 0, processes = 1;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  for (const Exchange& exchange : exchanges) {
    const double seconds = seconds_of_mpi(processes, exchange);
    if (process == 0) print(exchange, seconds);
  }
  MPI_Finalize();
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string_view> given(words + 1, words + count);
  const bool is_whole = given.size() >= 3 && (given[0] == "ours" || given[0] == "mpi") &&
                        (given[1] == "all_reduce" || given[1] == "all_to_all");
  if (!is_whole) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  try {
    std::vector<Exchange> exchanges;
    for (size_t i = 2; i < given.size(); ++i)
      exchanges.push_back({.kind = given[1] == "all_reduce" ? Kind::all_reduce : Kind::all_to_all,
                           .elements = std::stoll(std::string(given[i])) / kBytesOfANumber});
    given[0] == "ours" ? run_ours(exchanges) : run_mpi(exchanges);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
