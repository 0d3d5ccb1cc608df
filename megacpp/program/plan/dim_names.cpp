// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/dim_names.h"

#include "megacpp/core/base/error.h"

namespace megacpp::plan {

std::string_view dim_name(blocks::Dim dim) {
  using blocks::Dim;
  switch (dim) {
    case Dim::whole:
      return "whole";
    case Dim::batch:
      return "batch";
    case Dim::data:
      return "batch beside experts";
    case Dim::stream:
      return "tokens between mixers";
    case Dim::sequence:
      return "tokens in mixers";
    case Dim::heads:
      return "query heads";
    case Dim::kv_heads:
      return "KV heads";
    case Dim::mlp:
      return "inner width";
    case Dim::vocab:
      return "vocabulary";
    case Dim::experts:
      return "experts";
    case Dim::expert_mlp:
      return "inner width of experts";
    case Dim::tokens:
      return "tokens among experts";
    case Dim::inner:
      return "heads of scans";
    case Dim::groups:
      return "groups of heads";
    case Dim::width:
      return "width of recurrences";
    case Dim::whole_heads:
      return "query heads of whole sequences";
    case Dim::whole_kv:
      return "KV heads of whole sequences";
  }
  MEGACPP_CHECK(false) << "dimension " << static_cast<int>(dim) << " has no name";
  return {};
}

}  // namespace megacpp::plan
