// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/backend.h"

#include <algorithm>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/processor.h"

namespace megacpp::runtime {

#define MEGACPP_BACKEND(name) Backend name##_backend();
#include "megacpp/runtime/backend_list.inc"
#undef MEGACPP_BACKEND

namespace {

Faults faults_of(const recipe::Recipe& recipe) {
  const auto class_of = [](recipe::FailAllocation::At at) {
    return at == recipe::FailAllocation::At::compile ? memory::OomClass::compile
           : at == recipe::FailAllocation::At::load  ? memory::OomClass::load
                                                     : memory::OomClass::runtime;
  };
  Faults faults;
  for (const recipe::FailAllocation& fault : recipe::fail_allocations(recipe.hardware))
    faults.push_back({.chip = fault.chip, .cls = class_of(fault.at), .step = fault.step});
  return faults;
}

}  // namespace

const std::vector<Backend>& all_backends() {
  static const std::vector<Backend> backends = {
#define MEGACPP_BACKEND(name) name##_backend(),
#include "megacpp/runtime/backend_list.inc"
#undef MEGACPP_BACKEND
  };
  return backends;
}

const Backend& backend_named(const std::string& name) {
  const auto at = std::ranges::find(all_backends(), name, &Backend::name);
  if (at != all_backends().end()) return *at;
  std::vector<std::string> names;
  for (const Backend& backend : all_backends()) names.push_back(backend.name);
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
  base::raise(base::Code::E1003, {.where = "backend",
                                  .got = "'" + name + "'",
                                  .wanted = "one of " + list,
                                  .next = base::did_you_mean(name, names, "use one of these, or build with it")});
}

int threads_for(const recipe::Recipe& recipe) {
  return recipe.train.threads > 0 ? static_cast<int>(recipe.train.threads) : available_threads();
}

LoadOptions load_options(const recipe::Recipe& recipe, int64_t chips) {
  return {.threads = threads_for(recipe),
          .wait_limit = std::chrono::seconds(recipe.train.wait_limit),
          .limits = recipe::chip_limits(recipe.hardware, chips),
          .faults = faults_of(recipe)};
}

schedule::Target target_for(const recipe::Recipe& recipe, const ir::Mesh& mesh) {
  return backend_named(recipe.backend).target(recipe, mesh);
}

std::unique_ptr<Executable> load_for(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                     const LoadOptions& options) {
  return load_on(backend_named(recipe.backend), recipe, compiled, options);
}

std::unique_ptr<Executable> load_on(const Backend& backend, const recipe::Recipe& recipe,
                                    const compile::Compiled& compiled, const LoadOptions& options) {
  const base::Decision runs = backend.runs ? backend.runs(recipe) : base::Decision::yes();
  MEGACPP_REQUIRE(runs, E1505,
                  {.where = "backend " + backend.name,
                   .got = runs.reason(),
                   .wanted = "a recipe that it can run",
                   .next = "change that, or use another backend"});
  raise_faults(options.faults, memory::OomClass::compile, compiled, options.limits);
  return backend.load(recipe, compiled, options);
}

}  // namespace megacpp::runtime
