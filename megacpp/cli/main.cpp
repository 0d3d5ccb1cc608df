// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "megacpp/cli/command.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/spare_memory.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/machine/runtime/blas_kernels.h"

namespace {

// Where a stream is closed, the next file that is opened would take its number, and messages would go into that file.
// What cannot be written to stdout stays an error.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

cpu_set_t processors;  // of this process, as it was started
bool is_confined = false;

// OpenBLAS starts a thread for each processor when it is loaded, and ends the process by SIGINT where the system has no
// memory for one. None of them is ever used: one thread a call, and the threads are ours. It asks for the processors
// before main(), so until then there is one.
void confine_to_one_processor() {
  if (::sched_getaffinity(0, sizeof(processors), &processors) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &processors)) CPU_SET(i, &one);
  is_confined = ::sched_setaffinity(0, sizeof(one), &one) == 0;
}

// Tables that are made before main() have nobody to catch that there is no memory for them. Asks for none itself.
void refuse_to_start() {
  constexpr std::string_view kError =
      "error E2005 host memory ran out\n"
      "  where:  start of megacpp\n"
      "  got:    the system refused an allocation\n"
      "  wanted: memory for tables of the program\n"
      "  next:   free memory, or raise the limit on address space (ulimit -v)\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kError.data(), kError.size());
  ::_exit(megacpp::base::exit_status(megacpp::base::ErrorClass::does_not_fit));
}

void prepare_start(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  std::set_new_handler(refuse_to_start);
  confine_to_one_processor();
}

// Runs before the constructors of all shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = prepare_start;

}  // namespace

int main(int argc, char** argv) {
  if (is_confined) ::sched_setaffinity(0, sizeof(processors), &processors);
  fill_closed_streams();
  megacpp::runtime::blas_kernels();  // before there are threads
  // A reader of stdout or stderr that left is an error of the write, as a full disk is: see cli/output.h.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may not grow
  megacpp::base::handle_stop_signals();
  megacpp::base::keep_spare_memory();  // from here on it is caught
  return megacpp::cli::run(argc, argv);
}
