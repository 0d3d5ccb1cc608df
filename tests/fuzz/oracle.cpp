// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/oracle.h"

#include <typeinfo>
#include <vector>

#include "tests/support/error_contract.h"

namespace megacpp::fuzz {
void require(bool holds, const std::string& property) {
  if (!holds) throw BrokenProperty(property);
}

Judgement judge(const Target& target, Bytes input) {
  try {
    target.run(input);
    return {.is_accepted = true};
  } catch (const base::Error& error) {
    const std::vector<std::string> breaches = testing_support::breaches_of(error);
    if (breaches.empty()) return {.is_accepted = false};
    return {.finding = std::string(base::code_name(error.code())) + ": " + breaches.front() + "\n" + error.what()};
  } catch (const BrokenProperty& broken) {
    return {.finding = broken.what()};
  } catch (const std::exception& other) {
    return {.finding = std::string("exception ") + typeid(other).name() + ": " + other.what()};
  }
}

}  // namespace megacpp::fuzz
