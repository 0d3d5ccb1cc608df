// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "megacpp/base/stop_signals.h"
#include "megacpp/cli/command.h"

namespace {

// Where a stream is closed, the next file that is opened would take its number, and messages would go into that file.
// What cannot be written to stdout stays an error.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  // A reader of stdout or stderr that left is an error of the write, as a full disk is: see cli/output.h.
  std::signal(SIGPIPE, SIG_IGN);
  megacpp::base::handle_stop_signals();
  return megacpp::cli::run(argc, argv);
}
