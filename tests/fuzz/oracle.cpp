// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/oracle.h"

#include <typeinfo>

namespace megacpp::fuzz {
void require(bool holds, const std::string& property) {
  if (!holds) throw BrokenProperty(property);
}

std::optional<std::string> contract_breach(const base::Error& error) {
  const base::Problem& problem = error.problem();
  if (base::class_of(error.code()) == base::ErrorClass::internal) return "an internal error";
  if (problem.where.empty()) return "it does not say where";
  if (problem.got.empty()) return "it does not say what was got";
  if (problem.wanted.empty()) return "it does not say what is wanted";
  if (problem.next.empty()) return "it names no next step";
  return std::nullopt;
}

Judgement judge(const Target& target, Bytes input) {
  try {
    target.run(input);
    return {.is_accepted = true};
  } catch (const base::Error& error) {
    const std::optional<std::string> breach = contract_breach(error);
    if (!breach) return {.is_accepted = false};
    return {.finding = std::string(base::code_name(error.code())) + ": " + *breach + "\n" + error.what()};
  } catch (const BrokenProperty& broken) {
    return {.finding = broken.what()};
  } catch (const std::exception& other) {
    return {.finding = std::string("exception ") + typeid(other).name() + ": " + other.what()};
  }
}

}  // namespace megacpp::fuzz
