// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/compile_options.h"

#include <protozero/pbf_writer.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::pjrt {
namespace {

using protozero::pbf_writer;

/// xla.ExecutionOptions.EffortLevel
int32_t effort_level(Effort effort) {
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

// Fields are written in ascending order, defaults too where they are given: equal options give equal bytes.

/// xla.DeviceAssignmentProto: for each partition the devices of its replicas.
void write_device_assignment(pbf_writer assignment, const CompileOptions& options) {
  MEGACPP_CHECK(std::ssize(options.device_ids) == options.replicas * options.partitions)
      << options.device_ids.size() << " device ids for " << options.replicas << " x " << options.partitions;
  assignment.add_int64(1, options.replicas);
  assignment.add_int64(2, options.partitions);
  for (int64_t partition = 0; partition < options.partitions; ++partition) {
    std::vector<int64_t> ids;
    for (int64_t replica = 0; replica < options.replicas; ++replica)
      ids.push_back(options.device_ids[static_cast<size_t>(replica * options.partitions + partition)]);
    pbf_writer(assignment, 3).add_packed_int64(1, ids.begin(), ids.end());
  }
}

/// xla.ExecutableBuildOptionsProto
void write_build_options(pbf_writer build, const CompileOptions& options) {
  build.add_int64(1, -1);  // device_ordinal: not set; its default 0 would mean device 0
  build.add_int64(4, options.replicas);
  build.add_int64(5, options.partitions);
  build.add_bool(6, options.spmd_partitioning);
  if (!options.device_ids.empty()) write_device_assignment(pbf_writer(build, 9), options);
  if (options.device_memory_bytes) build.add_int64(15, *options.device_memory_bytes);
  build.add_bool(19, options.shardy);
  if (options.optimization) build.add_enum(24, effort_level(*options.optimization));
  if (options.memory_fitting) build.add_enum(25, effort_level(*options.memory_fitting));
}

/// xla.OptionOverrideProto
struct OverrideWriter {
  pbf_writer& message;
  void operator()(const std::string& value) const { message.add_string(1, value); }
  void operator()(bool value) const { message.add_bool(2, value); }
  void operator()(int64_t value) const { message.add_int64(3, value); }
  void operator()(double value) const { message.add_double(4, value); }
};

}  // namespace

std::string encode(const CompileOptions& options) {
  std::string bytes;
  pbf_writer result(bytes);
  write_build_options(pbf_writer(result, 3), options);
  for (const auto& [name, value] : options.flags) {
    pbf_writer entry(result, 7);  // of the map env_option_overrides
    entry.add_string(1, name);
    pbf_writer override_value(entry, 2);
    std::visit(OverrideWriter{override_value}, value);
  }
  return bytes;
}

}  // namespace megacpp::runtime::pjrt
