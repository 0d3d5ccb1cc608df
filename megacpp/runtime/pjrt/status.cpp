// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/status.h"

#include <array>
#include <utility>

namespace megacpp::runtime::pjrt {
namespace {

constexpr std::array<std::string_view, 17> kStatusNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::array<std::string_view, 8> kPhaseNames = {
    "setting up the plugin",     "creating the client", "creating the topology", "compiling", "loading the program",
    "moving data to or from it", "executing",           "asking about it"};

std::string next_step(base::Code code) {
  switch (code) {
    case base::Code::E1505:
      return "take another plugin or a newer version of it, or leave out what it names";
    case base::Code::E1506:
      return "check the name against the chips and sizes that are sold";
    case base::Code::E2002:
      return "shard more, recompute, or reduce the batch";
    case base::Code::E2003:
      return "free the device, or reduce what stays on it";
    case base::Code::E2004:
      return "reduce the batch, shard more, or free the device";
    default:
      return "search for the plugin's words, or try another version of it";
  }
}

}  // namespace

std::string_view status_name(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kStatusNames.size() ? kStatusNames[index] : kStatusNames[2];
}

std::string_view phase_name(Phase phase) { return kPhaseNames.at(static_cast<size_t>(phase)); }

base::Code code_of(StatusCode code, Phase phase) {
  const bool no_memory = code == StatusCode::resource_exhausted;
  const bool no_implementation = code == StatusCode::unimplemented;
  switch (phase) {
    case Phase::compile:
      if (no_memory) return base::Code::E2002;
      // NOT_FOUND is a custom call that nobody registered.
      return no_implementation || code == StatusCode::not_found ? base::Code::E1505 : base::Code::E3201;
    case Phase::load:
      return no_memory ? base::Code::E2003 : base::Code::E3201;
    case Phase::transfer:
    case Phase::execute:
      return no_memory ? base::Code::E2004 : base::Code::E3201;
    case Phase::create_topology:
      if (no_implementation) return base::Code::E1505;
      return code == StatusCode::invalid_argument || code == StatusCode::not_found ? base::Code::E1506
                                                                                   : base::Code::E3201;
    case Phase::set_up:
    case Phase::create_client:
    case Phase::query:
      return base::Code::E3201;
  }
  return base::Code::E3201;
}

PluginError::PluginError(Failure failure, Phase phase, const std::string& plugin)
    : base::Error(code_of(failure.code, phase), {.where = plugin + ", " + std::string(phase_name(phase)),
                                                 .got = std::string(status_name(failure.code)) + ": " + failure.message,
                                                 .next = next_step(code_of(failure.code, phase))}),
      failure_(std::move(failure)),
      phase_(phase) {}

}  // namespace megacpp::runtime::pjrt
