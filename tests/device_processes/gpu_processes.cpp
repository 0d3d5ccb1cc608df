// SPDX-License-Identifier: Apache-2.0
#include "tests/device_processes/gpu_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/processes/process_world.h"
#include "megacpp/machine/collectives/runs.h"
#include "megacpp/machine/cuda/device_world.h"
#include "megacpp/machine/plugins/gpu_shares.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "tests/support/gpu_here.h"
#include "tests/support/socket_endpoint.h"

namespace megacpp::testing_support {
namespace {

constexpr std::chrono::seconds kProcessLimit(60);

// Where NCCL is missing nobody is joined.
std::string why_no_nccl() {
  const FoundGpu& found = gpu_here();
  if (!found.gpu) return found.why_not;
  try {
    found.gpu->toolbox().library(runtime::cuda::LibraryKind::nccl);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1509) throw;
    return error.what();
  }
  return "";
}

int run_where_it_can(int64_t process, std::unique_ptr<collectives::Endpoint> endpoint, const ForkedBody& body) {
  if (const std::string why_not = why_no_nccl(); !why_not.empty()) {
    std::cerr << why_not << "\n";
    return kNoGpu;
  }
  return body(process, std::move(endpoint));
}

[[noreturn]] void be_process(int64_t process, std::unique_ptr<collectives::Endpoint> endpoint, const ForkedBody& body) {
  int code = kFailed;
  try {
    code = run_where_it_can(process, std::move(endpoint), body);
  } catch (const std::exception& error) {
    std::cerr << "process " << process << ": " << error.what() << std::endl;
  }
  ::_exit(code);
}

int ending_of(pid_t process, std::chrono::steady_clock::time_point end) {
  int status = 0;
  while (::waitpid(process, &status, WNOHANG | WUNTRACED) != process) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(process, SIGKILL);
      ::waitpid(process, &status, 0);
      return kHung;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFSTOPPED(status)) {
    ::kill(process, SIGKILL);
    ::waitpid(process, &status, 0);
    return kStopped;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::vector<int> run_forked(int64_t processes, const ForkedBody& body) {
  std::vector<std::unique_ptr<collectives::Endpoint>> endpoints = joined_endpoints(processes);
  std::vector<pid_t> forked;
  for (int64_t process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::unique_ptr<collectives::Endpoint> own = std::move(endpoints[static_cast<size_t>(process)]);
      endpoints.clear();  // the ends of the others
      be_process(process, std::move(own), body);
    }
    forked.push_back(child);
  }
  endpoints.clear();
  const auto end = std::chrono::steady_clock::now() + kProcessLimit;
  std::vector<int> endings;
  for (const pid_t child : forked) endings.push_back(ending_of(child, end));
  return endings;
}

collectives::Transport socket_transport(std::unique_ptr<collectives::Endpoint> endpoint) {
  const collectives::Properties properties = {.name = "sockets", .has_fixed_order_sums = true};
  // Shared by the copies of the record, of which one makes the world.
  const auto own = std::make_shared<std::unique_ptr<collectives::Endpoint>>(std::move(endpoint));
  return {.properties = properties,
          .doc = "processes of a test, joined by sockets",
          .workspace_bytes = collectives::terms_bytes,
          .make = [properties, own](const collectives::WorldOptions& options) -> std::unique_ptr<collectives::World> {
            collectives::ProcessWorld::Options world{
                .properties = properties, .owners = {}, .wait_limit = options.wait_limit};
            for (int64_t chip = 0; chip < options.chips; ++chip) world.owners.push_back(chip);
            return std::make_unique<collectives::ProcessWorld>(world, std::move(*own));
          }};
}

std::vector<int> run_gpu_processes(int64_t processes, std::chrono::milliseconds wait_limit,
                                   const GpuProcessBody& body) {
  return run_forked(processes, [&](int64_t process, std::unique_ptr<collectives::Endpoint> endpoint) {
    runtime::cuda::Gpu& gpu = *gpu_here().gpu;
    gpu.attach();
    std::shared_ptr<collectives::World> control =
        socket_transport(std::move(endpoint)).make({.chips = processes, .wait_limit = wait_limit});
    runtime::plugins::share_gpus(*control, {.machine = runtime::host_name(), .gpus = {gpu.properties().uuid}});
    const std::unique_ptr<collectives::World> world = runtime::cuda::make_device_world(
        {.control = std::move(control), .gpus = {gpu_here().gpu}, .wait_limit = wait_limit});
    return body({.gpu = gpu, .world = *world, .chip = process});
  });
}

}  // namespace megacpp::testing_support
