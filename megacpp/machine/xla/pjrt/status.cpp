// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/status.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "megacpp/machine/plugins/oom_message.h"
#include "megacpp/machine/plugins/plugin_places.h"

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

// Cards and versions differ in what attention their cuDNN takes. XLA calls it fmha, fused multi-head attention.
bool is_about_attention(std::string message) {
  std::ranges::transform(message, message.begin(), [](unsigned char c) { return std::tolower(c); });
  return message.find("fmha") != std::string::npos;
}

std::string next_step(base::Code code, const Failure& failure, Phase phase) {
  if (phase == Phase::compile && is_about_attention(failure.message))
    return "set xla.attention: blocked, which needs no cuDNN";
  switch (code) {
    case base::Code::E1505:
      return "take another plugin or a newer version of it, or leave out what it names";
    case base::Code::E1506:
      return "check the name against the chips and sizes that are sold";
    default:
      return "search for the plugin's words, or try another version of it";
  }
}

// Where memory runs out unless the message says otherwise; nothing for phases that have no such class.
std::optional<plugins::OomClass> oom_class_of(Phase phase) {
  switch (phase) {
    case Phase::compile:
      return plugins::OomClass::compile;
    case Phase::load:
      return plugins::OomClass::load;
    case Phase::transfer:
    case Phase::execute:
      return plugins::OomClass::runtime;
    default:
      return std::nullopt;
  }
}

std::string place_of(Phase phase, const std::string& plugin) { return plugin + ", " + std::string(phase_name(phase)); }

base::Error error_of(const Failure& failure, Phase phase, const std::string& plugin) {
  const base::Code code = code_of(failure.code, phase);
  return {code,
          {.where = place_of(phase, plugin),
           .got = std::string(status_name(failure.code)) + ": " + failure.message,
           .wanted = "a call that succeeds",
           .next = next_step(code, failure, phase)}};
}

}  // namespace

std::string_view status_name(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kStatusNames.size() ? kStatusNames[index] : kStatusNames[2];
}

std::string_view phase_name(Phase phase) { return kPhaseNames.at(static_cast<size_t>(phase)); }

base::Code code_of(StatusCode code, Phase phase) {
  if (const auto cls = oom_class_of(phase); cls && code == StatusCode::resource_exhausted)
    return plugins::code_of(*cls);
  const bool no_implementation = code == StatusCode::unimplemented;
  switch (phase) {
    case Phase::compile:
      // NOT_FOUND is a custom call that nobody registered.
      return no_implementation || code == StatusCode::not_found ? base::Code::E1505 : base::Code::E3201;
    case Phase::create_topology:
      if (no_implementation) return base::Code::E1505;
      return code == StatusCode::invalid_argument || code == StatusCode::not_found ? base::Code::E1506
                                                                                   : base::Code::E3201;
    default:
      return base::Code::E3201;
  }
}

PluginError::PluginError(Failure failure, Phase phase, const std::string& plugin)
    : base::Error(error_of(failure, phase, plugin)), failure_(std::move(failure)), phase_(phase) {}

void raise_failure(Failure failure, Phase phase, const std::string& plugin) {
  const auto during = oom_class_of(phase);
  if (failure.code != StatusCode::resource_exhausted || !during) throw PluginError(std::move(failure), phase, plugin);
  throw plugins::out_of_memory(
      plugins::read_oom_message(failure.message, {.during = *during, .platform = plugins::kind_of_file(plugin)}),
      place_of(phase, plugin));
}

}  // namespace megacpp::runtime::pjrt
