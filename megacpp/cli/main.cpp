// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "megacpp/cli/command.h"

int main(int argc, char** argv) {
  // A reader of stdout or stderr that left is an error of the write, as a full disk is: see cli/output.h.
  std::signal(SIGPIPE, SIG_IGN);
  return megacpp::cli::run(argc, argv);
}
