// SPDX-License-Identifier: Apache-2.0
// What a plugin says when memory runs out (status RESOURCE_EXHAUSTED), read into numbers. Known are the long and the
// short message of the TPU compiler, those of loading a program and of allocating on TPU and GPU, and those of the
// host. Whatever is not understood stays in `text`, which always holds the whole message; reading never fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::plugins {

using memory::code_of;
using memory::oom_class_name;
using memory::OomClass;

/// Of Bytes: what is not said is not there.
using Bytes = std::optional<int64_t>;

struct OomAllocation {
  Bytes bytes;     // as laid out on the device
  Bytes unpadded;  // what the elements take
  std::string op_name = {};
  std::string shape = {};   // "f32[32,4096,4096]{1,2,0:T(8,128)}"
  std::string source = {};  // "model.py:1059"
  std::string label = {};   // the instruction
  std::string kind = {};    // "HLO temp"
};

/// How the total is made up, as far as the message says.
struct OomSplit {
  Bytes reserved;
  Bytes program;
  Bytes arguments;
  Bytes output;
  Bytes temp;
  Bytes temp_unpadded;
  Bytes temp_padded;
  Bytes fragmentation;
};

struct OomMessage {
  OomClass cls;
  std::string memory_space = {};  // "hbm", "vmem"; empty when not said
  Bytes used;                     // needed in all, or asked for
  Bytes limit;                    // there is, or was free
  Bytes exceeded;                 // used - limit, or what the message says
  OomSplit split;
  std::vector<OomAllocation> largest;  // as listed, largest first
  std::string device = {};             // "0x0x1_HBM0", "partition 34", "GPU_0_bfc"
  std::string program = {};            // "jit_train_step"
  std::string text;
};

/// What was being done when the plugin answered so: decides the class where the message does not.
struct OomContext {
  OomClass during;
  PluginKind platform;
};
OomMessage read_oom_message(std::string_view text, const OomContext& context);

/// "31.25G" -> 33554432000, "530.00M", "4.0K", "0B", "6.00MiB", "4,237,689,856 bytes"; nothing for other texts.
Bytes read_size(std::string_view text);

/// The error's fields: numbers and the largest allocations under `got`. `where` is what the user asked for.
base::Problem problem_of(const OomMessage& message, const std::string& where);
/// The error every backend raises, with what the message says as its facts.
memory::OutOfMemory out_of_memory(const OomMessage& message, const std::string& where);
base::Json to_json(const OomMessage& message);

}  // namespace megacpp::runtime::plugins
