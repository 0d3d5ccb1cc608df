// SPDX-License-Identifier: Apache-2.0
#include "megacpp/receipt/receipt.h"

#include <array>
#include <utility>

namespace megacpp::receipt {
namespace {

constexpr std::array<std::pair<EndingKind, std::string_view>, 6> kEndings = {
    {{EndingKind::running, "running"},
     {EndingKind::finished, "finished"},
     {EndingKind::interrupted, "interrupted"},
     {EndingKind::failed, "failed"},
     {EndingKind::out_of_memory, "out of memory"},
     {EndingKind::killed, "killed"}}};

}  // namespace

std::string_view ending_name(EndingKind kind) { return kEndings[static_cast<size_t>(kind)].second; }

std::optional<EndingKind> ending_named(std::string_view name) {
  for (const auto& [kind, text] : kEndings)
    if (text == name) return kind;
  return std::nullopt;
}

}  // namespace megacpp::receipt
