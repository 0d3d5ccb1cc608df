// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"

#include <vector>

namespace megacpp::checkpoint {

#define MEGACPP_HF_CLASS(name) HfClass name##_class();
#include "megacpp/run/checkpoint/hf_class_list.inc"
#undef MEGACPP_HF_CLASS

std::span<const HfClass> hf_classes() {
  static const std::vector<HfClass> classes = {
#define MEGACPP_HF_CLASS(name) name##_class(),
#include "megacpp/run/checkpoint/hf_class_list.inc"
#undef MEGACPP_HF_CLASS
  };
  return classes;
}

std::string hf_class_names() {
  std::string names;
  for (const HfClass& cls : hf_classes()) names += (names.empty() ? "" : ", ") + std::string(cls.name);
  return names;
}

}  // namespace megacpp::checkpoint
