// SPDX-License-Identifier: Apache-2.0
// A program loaded on devices, ready to run. Running it starts work and returns; results stay on the devices, nothing
// passes through the host, and nothing is waited for unless asked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/xla/pjrt/buffer.h"
#include "megacpp/machine/xla/pjrt/client.h"
#include "megacpp/machine/xla/pjrt/compile_options.h"
#include "megacpp/machine/xla/pjrt/compiled_program.h"

namespace megacpp::runtime::pjrt {

/// One started run of a program on all its devices.
struct Execution {
  std::vector<std::vector<Buffer>> outputs;  // [device][output]
  std::vector<Handle> done;                  // an event for each device

  /// Waits until every device has finished; throws the error of the first that failed.
  void await() const;
};

class LoadedProgram {
 public:
  explicit LoadedProgram(Handle loaded);

  const CompiledProgram& compiled() const { return compiled_; }
  /// The devices it runs on, as indices into Client::devices(), in the order of execute()'s arguments.
  const std::vector<size_t>& devices() const { return devices_; }

  /// Starts the program with arguments [device][argument]. Arguments that the program's text donates
  /// (tf.aliasing_output, jax.buffer_donor) are deleted by this; their bytes become outputs.
  Execution execute(std::span<const std::vector<const Buffer*>> arguments) const;

 private:
  Handle loaded_;
  CompiledProgram compiled_;
  std::vector<size_t> devices_;
};

/// Compiles StableHLO text. `cause` says why, for the counters.
LoadedProgram compile(const Client& client, std::string_view stablehlo, const CompileOptions& options,
                      const std::string& cause = "asked for");

/// Loads what CompiledProgram::serialize() gave.
LoadedProgram load_serialized(const Client& client, std::string_view bytes);

}  // namespace megacpp::runtime::pjrt
