// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/protobuf_reader.h"

#include "megacpp/machine/xla/pjrt/replica_groups.h"
#include "tests/fuzz/choices.h"

namespace megacpp::fuzz {
namespace {

namespace pjrt = runtime::pjrt;

/// Reads a field in one of the ways that definitions know; messages in messages too.
void walk(std::string_view bytes, Choices& choices, int depth) {
  pjrt::ProtobufReader reader(bytes, "fuzz");
  std::vector<int64_t> integers;
  while (reader.next()) {
    switch (choices.below(5)) {
      case 0:
        reader.integer();
        break;
      case 1:
        reader.append_integers(integers);
        break;
      case 2:
        if (depth < 8) walk(reader.bytes(), choices, depth + 1);
        break;
      default:
        break;
    }
  }
}

void read_messages(Bytes input) {
  Choices choices(input.first(std::min<size_t>(16, input.size())));
  const std::string_view message = as_text(input.subspan(std::min<size_t>(16, input.size())));
  switch (choices.below(5)) {
    case 0:
      pjrt::read_replica_group(message);
      break;
    case 1:
      pjrt::read_collective_device_list(message);
      break;
    case 2:
      pjrt::read_iota_groups(message);
      break;
    case 3:
      pjrt::read_mesh_axes_groups(message);
      break;
    default:
      walk(message, choices, 0);
  }
}

}  // namespace

Target protobuf_target() {
  return {.name = "protobuf", .subject = "protobuf messages of plugins", .weight = 100, .run = read_messages};
}

}  // namespace megacpp::fuzz
