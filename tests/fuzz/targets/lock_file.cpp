// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/lock_file.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

// Everything of a lock file is looked at before its checksum.
void read_lock_text(Bytes input) {
  const lineage::Lock lock = lineage::parse_lock(as_text(input), "input");
  require(lineage::parse_lock(lineage::print_lock(lock), "text") == lock, "a lock file prints and parses");
}

}  // namespace

Target lock_file_target() {
  return {.name = "lock_file", .subject = "lock files", .weight = 100, .run = read_lock_text};
}

}  // namespace megacpp::fuzz
