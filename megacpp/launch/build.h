// SPDX-License-Identifier: Apache-2.0
// What runs a launch, as signatures tell it apart: this program by the content of its sources, and a plugin by its
// name, version and content with the driver below it. What another one learnt is shown as another's.
#pragma once

#include <filesystem>
#include <string>

#include "megacpp/catalog/signature.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::launch {

/// 16 hex digits of the names and contents of all sources; the build writes it.
std::string source_hash();

/// "0.1.0+1f2e3d4c5b6a7988"
std::string code_version();

/// With the plugin where the recipe's backend needs one: "plugin cpu 0.6.1 (build 77aa12), driver 550.54". One that is
/// not here is said to be missing, since plans are made for machines that have it.
catalog::Build build_of(const recipe::Recipe& recipe);

/// The GNU build id of a library, or a hash of its bytes where the linker left none. Hex digits.
std::string library_id(const std::filesystem::path& file);

/// "550.54.15" from the text of /proc/driver/nvidia/version; empty where it names none.
std::string driver_version(const std::string& text);

}  // namespace megacpp::launch
