// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/judge.h"

#include <signal.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/base/json.h"
#include "tests/support/child_process.h"

namespace megacpp::faults {
namespace {

using testing_support::Ending;

bool remembers(const std::string& list) {
  const base::Json object = base::parse_json(list, base::Code::E1202, "stdout");
  const base::Json* const entries = base::find_member(object, "entries");
  return entries != nullptr && std::ranges::any_of(*entries, [](const base::Json& entry) {
           const base::Json* const model = base::find_member(entry, "model");
           return model != nullptr && *model == kRememberedModel;
         });
}

}  // namespace

std::vector<std::string> judge_command(const Injection& injection, const Command& command, Ending ending) {
  const bool was_killed = std::ranges::count(injection.signals, SIGKILL) > 0;
  if (testing_support::is_not_started(ending) || (was_killed && ending.signal == SIGKILL)) return {};
  ending.json = command.json && injection.stdout_is == Stream::seen;
  ending.err_unseen = injection.hides_stderr;
  std::vector<std::string> breaches = testing_support::breaches_of(ending);
  if (injection.stdout_is == Stream::lost && ending.status != base::exit_status(base::ErrorClass::environment))
    breaches.push_back("what it printed was lost, and the status is " + std::to_string(ending.status));
  return breaches;
}

std::vector<std::string> judge_catalog(Ending ending) {
  ending.json = true;
  std::vector<std::string> breaches = testing_support::breaches_of(ending);
  if (ending.status != 0)
    breaches.push_back("afterwards the catalog cannot be read");
  else if (breaches.empty() && !remembers(ending.out))
    breaches.push_back("afterwards the catalog has lost what it remembered");
  return breaches;
}

}  // namespace megacpp::faults
