// SPDX-License-Identifier: Apache-2.0
// The hash of all sources, written by the build (cmake/HashSources.cmake). It stands apart from build.h and without its
// headers, since every edit of any source compiles the function again.
#pragma once

#include <string>

namespace megacpp::launch {

/// 16 hex digits of the names and contents of all sources.
std::string source_hash();

}  // namespace megacpp::launch
