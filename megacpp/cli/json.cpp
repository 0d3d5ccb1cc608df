// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/json.h"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/cli/output.h"

namespace megacpp::cli {
namespace {

std::optional<Json> pending;  // of the command that runs

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
  if (object) write_output(base::to_text(*object, 2) + "\n");
}

}  // namespace megacpp::cli
