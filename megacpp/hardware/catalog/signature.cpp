// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/signature.h"

#include <fmt/format.h>

#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/json.h"

namespace megacpp::catalog {

std::string to_text(const Build& build) {
  std::string text = build.code_version;
  if (!build.platform.empty()) text += ", " + build.platform;
  if (build.threads > 0) text += fmt::format(", {} thread{} a chip", build.threads, build.threads == 1 ? "" : "s");
  if (!build.processor.empty()) text += (build.threads > 0 ? " of " : ", ") + build.processor;
  return text;
}

std::string canonical_text(const Signature& signature) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{}: {}\n", name, base::json_quoted(value));
  };
  add("code_version", signature.build.code_version);
  // What earlier versions did not note leaves their keys as they were.
  if (!signature.build.platform.empty()) add("platform", signature.build.platform);
  if (signature.build.threads > 0) add("threads", std::to_string(signature.build.threads));
  if (!signature.build.processor.empty()) add("processor", signature.build.processor);
  add("hardware", signature.hardware);
  add("model", signature.model);
  add("model_hash", signature.model_hash);
  add("layout", signature.layout);
  add("features", signature.features);
  add("shape", signature.shape);
  return text;
}

uint64_t key(const Signature& signature) { return base::hash_of(canonical_text(signature)); }

std::string key_text(const Signature& signature) { return base::hash_text(key(signature)); }

std::string subject_text(const Signature& signature) {
  Signature subject = signature;
  subject.build = {};
  return base::hash_text(key(subject));
}

}  // namespace megacpp::catalog
