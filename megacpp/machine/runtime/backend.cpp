// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/backend.h"

#include <algorithm>

#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/recipe/chip_settings.h"

namespace megacpp::runtime {

namespace {

Faults faults_of(const recipe::RunRequest& request) {
  const auto class_of = [](recipe::FailAllocation::At at) {
    return at == recipe::FailAllocation::At::compile ? memory::OomClass::compile
           : at == recipe::FailAllocation::At::load  ? memory::OomClass::load
                                                     : memory::OomClass::runtime;
  };
  Faults faults;
  for (const recipe::FailAllocation& fault : recipe::fail_allocations(request.hardware))
    faults.push_back({.chip = fault.chip, .cls = class_of(fault.at), .step = fault.step});
  return faults;
}

}  // namespace

int threads_for(const recipe::RunRequest& request) {
  return request.threads > 0 ? static_cast<int>(request.threads) : available_threads();
}

int threads_per_chip(int threads, int64_t local_chips) {
  return static_cast<int>(std::max<int64_t>(1, threads / local_chips));
}

TargetMesh mesh_here(const recipe::RunRequest& request, int64_t chips) {
  return {.chips = chips, .threads = threads_per_chip(threads_for(request), chips)};
}

LoadOptions load_options(const recipe::RunRequest& request, int64_t chips) {
  return {.threads = threads_for(request),
          .wait_limit = request.wait_limit,
          .limits = recipe::chip_limits(request.hardware, chips),
          .faults = faults_of(request)};
}

}  // namespace megacpp::runtime
