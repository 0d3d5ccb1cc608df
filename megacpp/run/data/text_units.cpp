// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/text_units.h"

#include <algorithm>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"

namespace megacpp::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_text(const std::string& where, std::string got, std::string wanted) {
  base::raise(base::Code::E1008, {.where = where,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "mend the file, or give --field the member that holds the text"});
}

[[noreturn]] void refuse_changed_text(const std::string& where, std::string got) {
  base::raise(base::Code::E1008, {.where = where,
                                  .got = std::move(got),
                                  .wanted = "files that stay as they are while they are read",
                                  .next = "run the command again once nothing writes to them"});
}

int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) refuse_text(file.string(), error.message(), "a file of text");
  return static_cast<int64_t>(size);
}

bool is_lines(const fs::path& file) {
  const std::string ending = file.extension().string();
  return ending == ".jsonl" || ending == ".ndjson";
}

// The text of a line of JSON.
std::string text_of_line(std::string_view line, const std::string& where, const std::string& field) {
  const base::Json value = base::parse_json(line, base::Code::E1008, where);
  const base::Json* const member = base::find_member(value, field);
  if (member == nullptr) refuse_text(where, fmt::format("an object without \"{}\"", field), "a text of that name");
  const std::string* const text = base::as_text(*member);
  if (text == nullptr) refuse_text(where, fmt::format("\"{}\" is {}", field, base::kind_name(*member)), "a text");
  return *text;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// The first line that begins at `begin` or later.
size_t first_line(std::string_view whole, size_t begin) {
  if (begin == 0) return 0;
  const size_t end = whole.find('\n', begin - 1);
  return end == std::string_view::npos ? whole.size() : end + 1;
}

struct LineText {
  std::string file, field;
};

void for_each_line(std::string_view whole, const TextUnit& unit, const LineText& from,
                   const std::function<void(std::string_view text)>& body) {
  for (size_t at = first_line(whole, static_cast<size_t>(unit.begin)); at < static_cast<size_t>(unit.end);) {
    const size_t end = std::min(whole.find('\n', at), whole.size());
    const std::string_view line = whole.substr(at, end - at);
    if (!is_blank(line)) {
      const auto place = [&] {
        return std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      };
      std::string text;
      try {
        text = text_of_line(line, from.file, from.field);
      } catch (const base::Error&) {  // once more, now that the line's number is worth counting
        text = text_of_line(line, fmt::format("{}:{}", from.file, place() + 1), from.field);
      }
      if (!text.empty()) body(text);
    }
    at = end + 1;
  }
}

}  // namespace

std::vector<TextUnit> list_units(std::span<const fs::path> files, int64_t unit_bytes) {
  std::vector<TextUnit> units;
  for (size_t i = 0; i < files.size(); ++i) {
    const int64_t size = size_of(files[i]), step = is_lines(files[i]) ? unit_bytes : std::max<int64_t>(1, size);
    for (int64_t begin = 0; begin < size; begin += step)
      units.push_back({i, begin, std::min(size, begin + step), is_lines(files[i])});
  }
  return units;
}

void for_each_document(const fs::path& file, const TextUnit& unit, const std::string& text_field,
                       const std::function<void(std::string_view text)>& body) {
  const base::MappedFile mapped(file);
  const std::string_view whole(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  if (static_cast<int64_t>(whole.size()) < unit.end) refuse_changed_text(file.string(), "a file that became shorter");
  if (unit.is_lines)
    return mapped.read_unchanged([&] { for_each_line(whole, unit, {file.string(), text_field}, body); });
  body(mapped.read_unchanged([&] { return std::string(whole.substr(0, static_cast<size_t>(unit.end))); }));
}

uint64_t fingerprint_of_files(std::span<const fs::path> files) {
  std::string names;
  for (const fs::path& file : files) {
    std::error_code ignored;
    const auto time = fs::last_write_time(file, ignored).time_since_epoch().count();
    names += fmt::format("{}\n{} {}\n", file.string(), size_of(file), time);
  }
  return XXH64(names.data(), names.size(), 0);
}

void require_fingerprint(std::span<const fs::path> files, uint64_t fingerprint) {
  if (fingerprint_of_files(files) == fingerprint) return;
  refuse_changed_text(files.size() == 1 ? files.front().string() : fmt::format("one of {} files", files.size()),
                      "text that was written to while it was read");
}

}  // namespace megacpp::data
