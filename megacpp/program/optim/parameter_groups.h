// SPDX-License-Identifier: Apache-2.0
// Parameter groups: which of the optimizer's methods a parameter takes, and whether it decays. A recipe decides by
// kinds of parameters ("norm") and patterns of their names ("block*.M.A_log"), where * stands for any characters.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/optim/optimizer.h"

namespace megacpp::optim {

/// Names of parameters have dots and those of kinds do not: an item with a dot or a star is a pattern.
bool is_name_pattern(std::string_view item);

bool is_decayed(const Optimizer& settings, const blocks::Parameter& parameter);

/// "Muon, decay 0.1"; nothing where nothing trains it.
std::string group_name(const Optimizer& settings, const blocks::Parameter& parameter);

/// The first pattern of optimizer.no_decay that is the name of none of these parameters.
std::optional<std::string> unmatched_pattern(const Optimizer& settings, std::span<const blocks::Parameter> parameters);

}  // namespace megacpp::optim
