// SPDX-License-Identifier: Apache-2.0
#include "megacpp/optim/parameter_groups.h"

#include <algorithm>
#include <charconv>

#include "megacpp/optim/optimizer_def.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= name.size(); ++begin)
    if (matches(rest, name.substr(begin))) return true;
  return false;
}

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

bool is_name_pattern(std::string_view item) { return item.find_first_of(".*") != std::string_view::npos; }

bool is_decayed(const Optimizer& settings, const Parameter& parameter) {
  return settings.weight_decay > 0 && std::ranges::none_of(settings.no_decay, [&parameter](const std::string& item) {
           return is_name_pattern(item) ? matches(item, parameter.name) : item == kind_name(parameter.kind);
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
    if (is_name_pattern(item) &&
        std::ranges::none_of(parameters, [&item](const Parameter& parameter) { return matches(item, parameter.name); }))
      return item;
  return std::nullopt;
}

}  // namespace megacpp::optim
