// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/output.h"

namespace megacpp::cli {
namespace {

std::optional<Json> pending;  // of the command that runs

// A terminal takes some of these for the beginning of an escape sequence. The library escapes control characters below
// U+0020 alone; those from U+007f to U+009f can only stand in strings. Files keep them as they are: their checksums are
// of that text.
std::string with_escaped_controls(std::string text) {
  constexpr char kDelete = 0x7f, kLead = static_cast<char>(0xc2);
  const std::string kSought = {kDelete, kLead};
  for (size_t at = text.find_first_of(kSought); at != std::string::npos; at = text.find_first_of(kSought, at + 1)) {
    const bool is_delete = text[at] == kDelete;
    const auto code = static_cast<uint8_t>(is_delete ? kDelete : text[at + 1]);
    if (code < 0xa0) text.replace(at, is_delete ? 1 : 2, fmt::format("\\u{:04x}", code));
  }
  return text;
}

}  // namespace

Json error_json(const base::Error& error) {
  const base::Problem& problem = error.problem();
  return {{"code", std::string(base::code_name(error.code()))},
          {"title", std::string(base::code_title(error.code()))},
          {"where", problem.where},
          {"got", problem.got},
          {"wanted", problem.wanted},
          {"next", problem.next},
          {"exit_status", error.exit_status()}};
}

void print_json(const Json& object) {
  MEGACPP_CHECK(!pending && !has_output()) << "a command prints one JSON object and nothing else";
  pending = object;
}

void end_json(const base::Error* error) {
  std::optional<Json> object = std::exchange(pending, std::nullopt);
  if (has_output()) return;  // text, or an object that could not be written whole
  if (error != nullptr) {
    if (!object) object = Json::object();
    (*object)["error"] = error_json(*error);
  }
  if (object) write_output(with_escaped_controls(base::to_text(*object, 2)) + "\n");
}

}  // namespace megacpp::cli
