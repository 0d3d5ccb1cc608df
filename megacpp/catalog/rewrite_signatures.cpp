// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/rewrite_signatures.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/catalog/rows.h"

namespace megacpp::catalog {
namespace {

/// `text` with `before` replaced at the start of words.
std::string with_word(std::string text, std::string_view before, std::string_view after) {
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + after.size()))
    if (at == 0 || text[at - 1] == ' ') text.replace(at, before.size(), after);
  return text;
}

void give_rows(const Database& database, int64_t from, int64_t to) {
  for (const char* table : {"outcome", "start", "sample"})
    database.prepare(fmt::format("UPDATE {} SET signature = ? WHERE signature = ?", table)).bind(to, from).run();
  database.prepare("DELETE FROM signature WHERE id = ?").bind(from).run();
}

}  // namespace

void rewrite_signatures(const Database& database) {
  std::vector<std::pair<int64_t, Signature>> signatures;
  Statement rows = database.prepare(fmt::format("SELECT id, {} FROM signature ORDER BY id", kSignatureColumns));
  while (rows.step()) signatures.emplace_back(rows.integer(0), read_signature(rows, 1));
  std::map<std::string, int64_t> ids;  // by new key
  std::erase_if(signatures, [&](auto& row) {
    auto& [id, signature] = row;
    signature.layout = with_word(signature.layout, "lane=", "policy=");
    signature.hardware = with_word(signature.hardware, "drill chip ", "fault chip ");
    const auto [known, is_new] = ids.emplace(key_text(signature), id);
    if (!is_new) give_rows(database, id, known->second);
    return !is_new;
  });
  // Only now: a key is unique, and may have been that of a row which is gone.
  for (const auto& [id, signature] : signatures)
    database.prepare("UPDATE signature SET key = ?, subject = ?, layout = ?, hardware = ? WHERE id = ?")
        .bind(key_text(signature), subject_text(signature), signature.layout, signature.hardware, id)
        .run();
}

}  // namespace megacpp::catalog
