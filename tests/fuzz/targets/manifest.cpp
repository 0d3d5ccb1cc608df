// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/json.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

/// With the checksum that its text has: no mutation gets past it otherwise.
std::string sealed(base::Json json) {
  if (!json.is_object()) return base::to_text(json);
  json.erase("xxh64");
  const std::string text = base::to_text(json, 1);
  json["xxh64"] = base::hash_text(text);
  return base::to_text(json, 1);
}

void read_manifest(Bytes input) {
  const base::Json json = base::parse_json(as_text(input), base::Code::E1204, "input");
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(sealed(json), "input");
  for (const auto& [name, tensor] : manifest.tensors) {
    int64_t elements = 0;
    for (const checkpoint::Piece& piece : tensor.pieces) {
      elements += piece.box.elements();
      require(manifest.files.contains(piece.file), "pieces are in files of the checkpoint");
    }
    require(elements == tensor.whole.elements(), "pieces have as many elements as their tensor");
  }
  require(checkpoint::parse_manifest(checkpoint::to_text(manifest), "text") == manifest,
          "a manifest prints and parses");
}

}  // namespace

Target manifest_target() {
  return {.name = "manifest", .subject = "manifests of checkpoints", .weight = 100, .run = read_manifest};
}

}  // namespace megacpp::fuzz
