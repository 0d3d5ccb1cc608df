// SPDX-License-Identifier: Apache-2.0
// What is refused before a plugin is loaded; steps are in tests/backend.
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "megacpp/core/base/machine_memory.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::runtime::pjrt {
namespace {

// By two processes of this host, which take three quarters of what it has each.
std::vector<base::Error> errors_of_load(const std::string& plugin) {
  compile::Compiled compiled;
  compiled.mesh = ir::Mesh({{"data", 2}});
  compiled.stages.resize(1);
  testing_support::Processes processes(2);
  std::vector<base::Error> errors(2, base::Error(base::Code::E9001, {}));
  processes.run([&](size_t process) {
    LoadOptions options;
    options.wait_limit = std::chrono::seconds(60);
    options.transport = processes.transport(process);
    options.snapshot_bytes = [](const std::vector<int64_t>&) { return base::available_memory_bytes() / 4 * 3; };
    errors[process] = testing_support::error_of([&] { load(compiled, {.plugin = plugin}, options); });
  });
  return errors;
}

TEST(PjrtBackendTest, ProcessesOfAHostAreCountedTogetherBeforeAnyTakesMemory) {
  for (const base::Error& error : errors_of_load("/nowhere/libtpu.so")) {
    EXPECT_EQ(error.code(), base::Code::E2001) << error.what();
    EXPECT_EQ(error.problem().where.find("host "), 0u) << error.what();
    EXPECT_NE(error.problem().got.find("for the snapshot of checkpoints"), std::string::npos) << error.what();
  }
}

TEST(PjrtBackendTest, ChipsThatAreTheHostsMemoryAreCountedByTheirPlan) {
  for (const base::Error& error : errors_of_load("/nowhere/cpu.so"))
    EXPECT_EQ(error.code(), base::Code::E1505) << "its client knows no other process: " << error.what();
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
