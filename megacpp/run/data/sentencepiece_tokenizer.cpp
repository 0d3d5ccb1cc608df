// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/error.h"
#include "megacpp/run/data/tokenizer_def.h"
#ifdef MEGACPP_HAS_SENTENCEPIECE
#include "megacpp/run/data/sentencepiece/sentencepiece_model.h"
#endif

namespace megacpp::data {
namespace {

std::unique_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& file) {
#ifdef MEGACPP_HAS_SENTENCEPIECE
  return sentencepiece::load_model(file);
#else
  base::raise(base::Code::E1112, {.where = file.string(),
                                  .got = "a SentencePiece model",
                                  .wanted = "a build with the library SentencePiece",
                                  .next = "install the package libsentencepiece-dev, then configure and build again"});
#endif
}

}  // namespace

TokenizerDef sentencepiece_tokenizer() {
  return {.name = "sentencepiece",
          .file_name = "tokenizer.model",
          .doc = "a SentencePiece model",
          // A message whose first field is a message whose first field is text: the first piece of the vocabulary.
          .recognises = [](std::string_view head) { return head.size() > 2 && head[0] == '\n' && head[2] == '\n'; },
          .load = load_sentencepiece};
}

}  // namespace megacpp::data
