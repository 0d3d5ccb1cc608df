// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/compile_options.h"

#include <bit>
#include <string_view>

#include "megacpp/base/error.h"

namespace megacpp::runtime::pjrt {
namespace {

/// A protobuf message under construction. Fields are written in ascending order, defaults too where they are given.
class Message {
 public:
  void integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void floating(int field, double value) {
    tag(field, 1);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift));
  }
  void text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }
  /// Elements of a packed repeated field, without a tag.
  void element(int64_t value) { varint(static_cast<uint64_t>(value)); }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, unsigned wire_type) { varint(static_cast<unsigned>(field) << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

/// xla.ExecutionOptions.EffortLevel
int64_t effort_level(Effort effort) {
  switch (effort) {
    case Effort::o0:
      return 9;
    case Effort::o1:
      return 19;
    case Effort::o2:
      return 29;
    case Effort::o3:
      return 39;
  }
  return 0;
}

/// xla.DeviceAssignmentProto: for each partition the devices of its replicas.
Message device_assignment(const CompileOptions& options) {
  MEGACPP_CHECK(std::ssize(options.device_ids) == options.replicas * options.partitions)
      << options.device_ids.size() << " device ids for " << options.replicas << " x " << options.partitions;
  Message assignment;
  assignment.integer(1, options.replicas);
  assignment.integer(2, options.partitions);
  for (int64_t partition = 0; partition < options.partitions; ++partition) {
    Message ids;
    for (int64_t replica = 0; replica < options.replicas; ++replica) {
      ids.element(options.device_ids[static_cast<size_t>(replica * options.partitions + partition)]);
    }
    Message devices;
    devices.message(1, ids);
    assignment.message(3, devices);
  }
  return assignment;
}

/// xla.ExecutableBuildOptionsProto
Message build_options(const CompileOptions& options) {
  Message build;
  build.integer(1, -1);  // device_ordinal: not set; its default 0 would mean device 0
  build.integer(4, options.replicas);
  build.integer(5, options.partitions);
  build.integer(6, options.spmd_partitioning);
  if (!options.device_ids.empty()) build.message(9, device_assignment(options));
  if (options.device_memory_bytes) build.integer(15, *options.device_memory_bytes);
  build.integer(19, options.shardy);
  if (options.optimization) build.integer(24, effort_level(*options.optimization));
  if (options.memory_fitting) build.integer(25, effort_level(*options.memory_fitting));
  return build;
}

/// xla.OptionOverrideProto
struct OverrideWriter {
  Message& message;
  void operator()(const std::string& value) const { message.text(1, value); }
  void operator()(bool value) const { message.integer(2, value); }
  void operator()(int64_t value) const { message.integer(3, value); }
  void operator()(double value) const { message.floating(4, value); }
};

}  // namespace

std::string encode(const CompileOptions& options) {
  Message result;
  result.message(3, build_options(options));
  for (const auto& [name, value] : options.flags) {
    Message override_value;
    std::visit(OverrideWriter{override_value}, value);
    Message entry;  // of the map env_option_overrides
    entry.text(1, name);
    entry.message(2, override_value);
    result.message(7, entry);
  }
  return result.bytes();
}

}  // namespace megacpp::runtime::pjrt
