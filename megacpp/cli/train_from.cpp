// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/train_from.h"

#include <utility>

#include "megacpp/core/base/hash.h"
#include "megacpp/run/checkpoint/hf_folder.h"
#include "megacpp/run/launch/named_model.h"
#include "megacpp/run/train/load_state.h"

namespace megacpp::cli {

WeightSource open_weight_source(const std::string& named) {
  launch::NamedModel model = launch::open_model(named);
  WeightSource source{.model = std::move(model.given), .folder = model.folder, .load = {}, .digests = {}};
  if (model.checkpoint) {
    source.load = [reader = model.checkpoint](const compile::Compiled& compiled, runtime::Executable& run) {
      train::load_weights(*reader, compiled, run, train::AbsentAdapters::left);
    };
    source.digests = [reader = model.checkpoint] {
      const std::string manifest = base::hash_text(checkpoint::to_text(reader->manifest()));
      return std::vector<collectives::Field>{{std::string(checkpoint::kManifestFile), manifest}};
    };
  } else {
    // Read when the chips are there, and dropped once they have it: no copy of the model stays beside the run.
    source.load = [folder = model.folder](const compile::Compiled& compiled, runtime::Executable& run) {
      train::load_weights(checkpoint::import_hf_folder(folder).tensors, compiled, run, train::AbsentAdapters::left);
    };
    source.digests = [folder = model.folder] {
      std::vector<collectives::Field> fields;
      for (const auto& [file, hash] : checkpoint::digest_hf_folder(folder))
        fields.push_back({file, base::hash_text(hash)});
      return fields;
    };
  }
  return source;
}

}  // namespace megacpp::cli
