// SPDX-License-Identifier: Apache-2.0
// The settings of a block, of a type that its family's file defines and nobody else needs to know: a value that is
// copied, compared and handed on. Who imports or tests a family by name may look inside with as<T>().
#pragma once

#include <any>
#include <map>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::blocks {

class Config {
 public:
  Config() = default;

  template <typename T>
  static Config of(T value) {
    Config config;
    config.value_ = std::move(value);
    config.equal_ = [](const std::any& a, const std::any& b) {
      const T* left = std::any_cast<T>(&a);
      const T* right = std::any_cast<T>(&b);
      return left != nullptr && right != nullptr && *left == *right;
    };
    return config;
  }

  /// nullptr for the settings of another family. The pointer is into this object, so not of a temporary.
  template <typename T>
  T* get_if() & {
    return std::any_cast<T>(&value_);
  }
  template <typename T>
  const T* get_if() const& {
    return std::any_cast<T>(&value_);
  }
  template <typename T>
  const T* get_if() const&& = delete;

  template <typename T>
  T& as() {
    MEGACPP_CHECK(get_if<T>() != nullptr) << "settings of another family";
    return *get_if<T>();
  }
  template <typename T>
  const T& as() const {
    MEGACPP_CHECK(get_if<T>() != nullptr) << "settings of another family";
    return *get_if<T>();
  }

  bool operator==(const Config& other) const {
    return equal_ == nullptr ? other.equal_ == nullptr : equal_(value_, other.value_);
  }

 private:
  std::any value_;
  bool (*equal_)(const std::any&, const std::any&) = nullptr;
};

/// The settings of every family before anything is given, by its letter.
std::map<char, Config> default_configs();

}  // namespace megacpp::blocks
