// SPDX-License-Identifier: Apache-2.0
// The keys of a chip file as a table, made of the members of a chip (chip_fields.h): kind, range, meaning, and where a
// value is stored. Reading, checking, suggestions and the table in docs/hardware.md come from it; none of them names a
// key itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/schema/key.h"
#include "megacpp/hardware/hw/chip.h"

namespace megacpp::hw {

/// A value on its way from the file's text to the chip.
struct FileValue {
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  std::string text = {};
  std::vector<std::string> list = {};
  schema::ByteSize bytes = {};

  schema::Member member(schema::Kind kind);
};

struct FileKey : schema::KeySpec {
  /// A number, or numbers, that must have a source: a fact of the chip.
  bool is_fact = false;
};

/// In the member that is meant by the key, of a Chip or a Link. False for a value that is of the kind and in the range,
/// and still none.
template <typename Record>
bool store(Record& record, const FileKey& key, const FileValue& value);

/// Paths from the top of the file: "memory.usable".
std::span<const FileKey> chip_keys();
/// Of an item of the list `links`: "scope".
std::span<const FileKey> link_keys();

/// Null for a path that is no key.
const FileKey* find_chip_key(std::string_view path);
/// The words that may follow `section` ("" for the file, "tiles.rows"); none where it is no section.
std::vector<std::string> words_of(std::string_view section);

/// Markdown table of all keys.
std::string key_table();

}  // namespace megacpp::hw
