// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/backend_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/backend_names.h"

namespace megacpp::cli {
namespace {

using collectives::Ordering;
using collectives::Transport;

const Transport& transport_named(const std::string& name) {
  return *std::ranges::find(collectives::all_transports(), name,
                            [](const Transport& each) { return each.properties.name; });
}

std::string_view ordering_name(Ordering ordering) { return ordering == Ordering::host ? "host" : "stream"; }

std::string transport_text(const std::string& name) {
  const collectives::Properties& properties = transport_named(name).properties;
  return fmt::format("{}, sums in {} order, ordered on the {}", name,
                     properties.has_fixed_order_sums ? "a fixed" : "any", ordering_name(properties.ordering));
}

std::vector<std::string_view> chips_of(const runtime::Backend& backend) {
  std::vector<std::string_view> kinds;
  for (const auto kind : backend.runs_on) kinds.push_back(hw::to_string(kind));
  return kinds;
}

std::string here_text(const runtime::Backend& backend) {
  const recipe::RunRequest request;  // the plugin is the default
  const base::Decision usable = backend.usable(request);
  if (!usable) return "no: " + usable.reason();
  const std::string identity = backend.identity(request);
  return identity.empty() ? "yes" : "yes: " + identity;
}

}  // namespace

std::string backends_text() {
  std::string text;
  for (size_t i = 0; i < runtime::all_backends().size(); ++i) {
    const runtime::Backend& backend = runtime::all_backends()[i];
    std::vector<std::string> transports;
    for (const std::string& name : backend.transports) transports.push_back(transport_text(name));
    text += fmt::format("\nbackend {}: {}\n  runs on    {}\n  exchange   {}\n  usable     {}\n", backend.name,
                        recipe::backend_names()[i].doc, fmt::join(chips_of(backend), ", "),
                        transports.empty() ? "its compiler's own" : fmt::format("{}", fmt::join(transports, "; ")),
                        here_text(backend));
  }
  return text;
}

Json backends_json() {
  Json list = Json::array();
  for (size_t i = 0; i < runtime::all_backends().size(); ++i) {
    const runtime::Backend& backend = runtime::all_backends()[i];
    const recipe::RunRequest request;
    const base::Decision usable = backend.usable(request);
    Json transports = Json::array();
    for (const std::string& name : backend.transports) {
      const collectives::Properties& properties = transport_named(name).properties;
      transports.push_back({{"name", name},
                            {"fixed_order_sums", properties.has_fixed_order_sums},
                            {"ordering", ordering_name(properties.ordering)}});
    }
    list.push_back({{"name", backend.name},
                    {"doc", recipe::backend_names()[i].doc},
                    {"runs_on", chips_of(backend)},
                    {"transports", transports},
                    {"usable", static_cast<bool>(usable)},
                    {"why_not", usable ? Json() : Json(usable.reason())},
                    {"identity", backend.identity(request)}});
  }
  return list;
}

}  // namespace megacpp::cli
