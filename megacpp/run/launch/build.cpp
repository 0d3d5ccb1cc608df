// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/build.h"

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/launch/source_hash.h"

namespace megacpp::launch {

std::string code_version() { return MEGACPP_VERSION "+" + source_hash(); }

std::string platform_of(const recipe::Recipe& recipe) {
  return runtime::backend_named(recipe.backend).identity(recipe::run_request(recipe));
}

catalog::Build program_of(const recipe::Recipe& recipe) {
  return {.code_version = code_version(), .platform = platform_of(recipe)};
}

catalog::Build build_of(const recipe::Recipe& recipe, const hw::Slice& slice) {
  catalog::Build build = program_of(recipe);
  // Devices of a plugin that nothing is known of stand for this machine under a name of their own.
  const bool is_this_machine = slice.chip.is_virtual() && slice.chip.name == "host";
  if (!is_this_machine) return build;
  const int threads = runtime::backend_named(recipe.backend).threads(recipe::run_request(recipe));
  build.threads = runtime::threads_per_chip(threads, slice.chip.slices.host[0]);
  build.processor = runtime::this_processor().name();
  return build;
}

}  // namespace megacpp::launch
