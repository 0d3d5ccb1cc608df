// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the size of the .bin, the rest is the index.
#include "megacpp/run/data/indexed_dataset.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_index(Bytes input) {
  const int64_t bin_bytes = input.empty() ? 0 : int64_t{8} << (input[0] % 6);
  const data::TokenIndex index(std::as_bytes(input.subspan(input.empty() ? 0 : 1)), bin_bytes, "input.idx");
  require(index.tokens() * index.type().bytes == bin_bytes, "the sequences fill the .bin");
  int64_t end = 0;
  for (int64_t document = 0; document < index.documents(); ++document) {
    require(index.begin_of(document) >= end, "documents begin one behind another");
    end = index.begin_of(document);
    const int64_t behind = index.document_behind(end);
    require(behind > document && behind <= index.documents(), "the next document comes later");
  }
  require(index.begin_of(index.documents()) == index.tokens(), "documents hold all tokens");
}

}  // namespace

Target token_index_target() {
  return {.name = "token_index", .subject = "indexes of datasets (.idx)", .weight = 100, .run = read_index};
}

}  // namespace megacpp::fuzz
