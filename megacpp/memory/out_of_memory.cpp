// SPDX-License-Identifier: Apache-2.0
#include "megacpp/memory/out_of_memory.h"

namespace megacpp::memory {

base::Code code_of(OomClass cls) {
  constexpr base::Code kCodes[] = {base::Code::E2002, base::Code::E2003, base::Code::E2004, base::Code::E2005};
  return kCodes[static_cast<size_t>(cls)];
}

std::string_view oom_class_name(OomClass cls) {
  constexpr std::string_view kNames[] = {"compile-time HBM", "program load", "runtime allocation", "host"};
  return kNames[static_cast<size_t>(cls)];
}

std::string steps_text(int64_t first, int64_t last) {
  if (first < 0 || first == last) return "step " + std::to_string(last);
  return "steps " + std::to_string(first) + " to " + std::to_string(last);
}

OutOfMemory OutOfMemory::in_steps(int64_t first, int64_t last) const {
  OomFacts facts = facts_;
  facts.step = last;
  facts.first_step = first == last ? -1 : first;
  base::Problem same = problem();
  same.where += ", " + steps_text(first, last);
  return {code(), std::move(same), std::move(facts)};
}

OutOfMemory OutOfMemory::running(const std::string& subject) const {
  base::Problem named = problem();
  named.where += ", running " + subject;
  return {code(), std::move(named), facts_};
}

}  // namespace megacpp::memory
