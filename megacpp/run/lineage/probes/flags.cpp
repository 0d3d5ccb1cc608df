// SPDX-License-Identifier: Apache-2.0
// Variables of the environment that change what libraries and plugins compute, or which of them are loaded. Flags of a
// recipe stand in the recipe.
#include <fmt/format.h>

#include <array>

#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {

std::vector<Probe> flags_probes() {
  constexpr std::array kVariables = {
      "CUDA_VISIBLE_DEVICES",  // which GPUs there are
      "LD_LIBRARY_PATH",       // libraries in place of others
      "LD_PRELOAD",            //
      "LIBTPU_INIT_ARGS",      // flags of the TPU's compiler and runtime
      "NVIDIA_TF32_OVERRIDE",  // how wide products are on a GPU
      "OPENBLAS_CORETYPE",     // which kernels
      "XLA_FLAGS",             // flags of XLA
  };
  std::vector<Probe> probes;
  for (const char* const name : kVariables)
    probes.push_back({.name = fmt::format("env.{}", name),
                      .group = "flags",
                      .pins = Pins::at_launch,
                      .ask =
                          [name](const Subject& subject) {
                            const std::string value = subject.surroundings.variable(name);
                            return value.empty() ? kNone : value;
                          },
                      .fix =
                          [name](const std::string& documented) {
                            return documented == kNone ? fmt::format("unset {}", name)
                                                       : fmt::format("export {}='{}'", name, documented);
                          }});
  return probes;
}

}  // namespace megacpp::lineage
