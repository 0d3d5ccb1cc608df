// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/optim/parameter_groups.h"

#include <algorithm>
#include <charconv>

#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

bool is_name_pattern(std::string_view item) { return item.find_first_of(".*") != std::string_view::npos; }

bool is_decayed(const Optimizer& settings, const Parameter& parameter) {
  return settings.weight_decay > 0 && std::ranges::none_of(settings.no_decay, [&parameter](const std::string& item) {
           return is_name_pattern(item) ? blocks::name_matches(item, parameter.name)
                                        : item == kind_name(parameter.kind);
         });
}

std::string group_name(const Optimizer& settings, const Parameter& parameter) {
  if (!parameter.trainable) return "";
  const std::string decay =
      is_decayed(settings, parameter) ? "decay " + number_text(settings.weight_decay) : "no decay";
  return std::string(method_of(optimizer_def(settings.name), parameter)) + ", " + decay;
}

std::optional<std::string> unmatched_pattern(const Optimizer& settings, std::span<const Parameter> parameters) {
  for (const std::string& item : settings.no_decay)
    if (is_name_pattern(item) && std::ranges::none_of(parameters, [&item](const Parameter& parameter) {
          return blocks::name_matches(item, parameter.name);
        }))
      return item;
  return std::nullopt;
}

}  // namespace megacpp::optim
