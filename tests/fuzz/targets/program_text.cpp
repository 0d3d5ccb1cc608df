// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/text.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

void read_program(Bytes input) {
  const ir::Graph graph = ir::parse(as_text(input));
  const std::string text = ir::print(graph);
  require(ir::print(ir::parse(text)) == text, "a printed program reads back as another");
}

}  // namespace

Target program_text_target() {
  return {.name = "program_text", .subject = "programs as text", .weight = 50, .run = read_program};
}

}  // namespace megacpp::fuzz
