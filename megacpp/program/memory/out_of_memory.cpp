// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/out_of_memory.h"

#include <algorithm>
#include <iterator>

namespace megacpp::memory {
namespace {

constexpr std::string_view kClassNames[] = {"compile-time HBM", "program load", "runtime allocation", "host"};

}  // namespace

base::Code code_of(OomClass cls) {
  constexpr base::Code kCodes[] = {base::Code::E2002, base::Code::E2003, base::Code::E2004, base::Code::E2005};
  return kCodes[static_cast<size_t>(cls)];
}

std::string_view oom_class_name(OomClass cls) { return kClassNames[static_cast<size_t>(cls)]; }

OomClass oom_class_named(std::string_view name) {
  const auto at = std::ranges::find(kClassNames, name);
  MEGACPP_CHECK(at != std::end(kClassNames)) << "no class of failures: " << name;
  return static_cast<OomClass>(at - std::begin(kClassNames));
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
