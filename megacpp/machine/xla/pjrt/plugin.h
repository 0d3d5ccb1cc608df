// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin: a shared library that exports GetPjrtApi. Loading checks that it is one and that its version fits;
// nothing is asked of a device yet. Each file is loaded and initialized once per process and never unloaded.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/xla/pjrt/named_value.h"

namespace megacpp::runtime::pjrt {

class Api;

/// The oldest API minor version taken. Since 0.57 the function table has its present order, and since 0.70 a program
/// may carry its shardings as plain ops, which is how ours are written. Newer minors only append: all are taken.
inline constexpr int kOldestApiMinor = 70;

class Plugin {
 public:
  /// The plugin of a file; the same object for the same file, from any thread. E1501 no such file, E1502 no plugin,
  /// E1503 a version that does not fit, E3201 when it cannot be set up.
  static const Plugin& load(const std::filesystem::path& file);

  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::string api_version() const;  // "0.81"
  /// xla_version, stablehlo_current_version, stablehlo_minimum_version, and what else it says of itself.
  const std::vector<NamedValue>& attributes() const { return attributes_; }
  /// API version and attributes on one line: what compiled programs and receipts depend on.
  std::string identity() const;

  const Api& api() const { return *api_; }

 private:
  explicit Plugin(std::filesystem::path file);

  std::filesystem::path file_;
  std::unique_ptr<Api> api_;
  std::vector<NamedValue> attributes_;
};

/// Whether a plugin of this version can be used; throws E1503 otherwise.
struct ApiVersion {
  int major = 0;
  int minor = 0;
};
void require_version(ApiVersion version, const std::string& plugin);

}  // namespace megacpp::runtime::pjrt
