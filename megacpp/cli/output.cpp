// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/output.h"

#include <stdio_ext.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "megacpp/core/base/error.h"

namespace megacpp::cli {
namespace {

bool any_output = false;  // of the command that runs

[[noreturn]] void fail_writing(int error) {
  // What the stream still holds would fail again at the process's end.
  ::__fpurge(stdout);
  std::clearerr(stdout);
  base::raise(base::Code::E3001, {.where = "standard output",
                                  .got = std::string("cannot write: ") + std::strerror(error),
                                  .wanted = "a file, pipe or terminal that takes all of it",
                                  .next = "check the free space and what reads the output"});
}

void write_err(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stderr) != text.size()) std::clearerr(stderr);
}

}  // namespace

void begin_output() { any_output = false; }
bool has_output() { return any_output; }

void write_output(std::string_view lines) { write_bytes(base::printable(lines)); }

void write_bytes(std::string_view bytes) {
  any_output |= !bytes.empty();
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) fail_writing(errno);
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_writing(errno);
}

void write_message(std::string_view lines) { write_err(base::printable(lines)); }

void show_moving_line(std::string_view line) { write_err(fmt::format("\r{:<78}", base::printable_in_line(line))); }

}  // namespace megacpp::cli
