// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

#ifdef MEGACPP_HAS_PJRT
#define MEGACPP_FUZZ_PJRT_TARGET(name) MEGACPP_FUZZ_TARGET(name)
#define MEGACPP_FUZZ_LEFT_OUT(name)
#else
#define MEGACPP_FUZZ_PJRT_TARGET(name)
#define MEGACPP_FUZZ_LEFT_OUT(name) #name,
#endif

namespace megacpp::fuzz {

#define MEGACPP_FUZZ_TARGET(name) Target name##_target();
#include "tests/fuzz/target_list.inc"
#undef MEGACPP_FUZZ_TARGET

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = {
#define MEGACPP_FUZZ_TARGET(name) name##_target(),
#include "tests/fuzz/target_list.inc"
#undef MEGACPP_FUZZ_TARGET
  };
  return targets;
}

#undef MEGACPP_FUZZ_PJRT_TARGET

const std::vector<std::string>& left_out_targets() {
  static const std::vector<std::string> names = {
#define MEGACPP_FUZZ_TARGET(name)
#define MEGACPP_FUZZ_PJRT_TARGET(name) MEGACPP_FUZZ_LEFT_OUT(name)
#include "tests/fuzz/target_list.inc"
#undef MEGACPP_FUZZ_PJRT_TARGET
#undef MEGACPP_FUZZ_TARGET
  };
  return names;
}

#undef MEGACPP_FUZZ_LEFT_OUT

const Target* find_target(std::string_view name) {
  for (const Target& target : all_targets())
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace megacpp::fuzz
