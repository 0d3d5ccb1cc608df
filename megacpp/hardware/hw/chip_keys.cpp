// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip_keys.h"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

#include "megacpp/hardware/hw/chip_fields.h"

namespace megacpp::hw {
namespace {

using schema::Kind;

template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};

template <typename T>
inline constexpr bool kIsWhole = std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>;
template <typename T>
inline constexpr bool kIsSizes = std::is_same_v<T, Sizes> || std::is_same_v<T, std::vector<Sizes>>;

/// What a list of members says of one.
struct Said {
  schema::Range range = {};
  std::string doc = {};
  bool is_in_bytes = false, is_sourced = false;
  std::vector<std::string> names = {};

  void take(const schema::Range& said) { range = said; }
  void take(const char* said) { doc = said; }
  void take(InBytes) { is_in_bytes = true; }
  void take(Sourced) { is_sourced = true; }
  void take(const Names& said) { names = said.names; }
  template <auto field>
  void take(Only<field>) {}

  /// Of the member that a map has under `name`.
  Said under(const std::string& name) const {
    Said said{.range = range, .doc = doc, .is_in_bytes = is_in_bytes, .is_sourced = is_sourced};
    if (const size_t at = doc.find("{}"); at != std::string::npos) said.doc.replace(at, 2, name);
    return said;
  }
};

template <typename... About>
Said said_by(const About&... about) {
  Said said;
  (said.take(about), ...);
  return said;
}

// ---- The table of keys

template <typename T>
Kind kind_of_member(const Said& said) {
  if constexpr (kIsWhole<T>) return said.is_in_bytes ? Kind::bytes : Kind::integer;
  if constexpr (std::is_same_v<T, double>) return Kind::number;
  if constexpr (std::is_same_v<T, bool>) return Kind::flag;
  if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<Sizes>>) return Kind::list;
  return Kind::text;
}

class KeyLister {
 public:
  explicit KeyLister(std::vector<FileKey>& keys, std::string prefix = "", std::string suffix = "")
      : keys_(keys), prefix_(std::move(prefix)), suffix_(std::move(suffix)) {}

  template <typename T, typename... About>
  void operator()(const char* name, const T& /*member*/, const About&... about) const {
    if constexpr (IsMap<T>::value) {
      const Said said = said_by(about...);
      for (const std::string& each : said.names)
        add<Shown<typename T::mapped_type>>(std::string(name) + "." + each, said.under(each));
    } else {
      add<T>(name, said_by(about...));
    }
  }

 private:
  // A record of which one member is meant (Only) has numbers alone.
  template <typename Value>
  using Shown = std::conditional_t<base::Record<Value> || std::is_arithmetic_v<Value>, Value, double>;

  template <typename T>
  void add(const std::string& name, Said said) const {
    if constexpr (base::Record<T>) {
      const T nested{};
      visit_fields(KeyLister(keys_, prefix_ + name + ".", said.doc), nested);
    } else {
      if constexpr (base::HasWords<T>)
        if (said.range.choices.empty()) said.range.choices = base::all_words<T>();
      keys_.push_back({{prefix_ + name, kind_of_member<T>(said), std::move(said.range),
                        said.doc + (suffix_.empty() ? "" : " " + suffix_)},
                       said.is_sourced || kIsWhole<T> || kIsSizes<T> || std::is_same_v<T, double>});
    }
  }

  std::vector<FileKey>& keys_;
  std::string prefix_, suffix_;
};

template <typename Record>
std::vector<FileKey> keys_of() {
  std::vector<FileKey> keys;
  const Record record{};
  visit_fields(KeyLister(keys), record);
  return keys;
}

// ---- Storing a value

/// Blanks around a name would keep it from ever being met.
bool has_blank_end(const std::string& name) {
  constexpr std::string_view kBlank = " \t\r\n";
  return kBlank.find(name.front()) != std::string_view::npos || kBlank.find(name.back()) != std::string_view::npos;
}

bool store_in(std::vector<std::string>& member, const FileValue& value) {
  member = value.list;
  return std::ranges::none_of(member, has_blank_end);
}
bool store_in(Sizes& member, const FileValue& value) {
  const std::optional<Sizes> sizes = read_sizes(value.text);
  member = sizes.value_or(Sizes{});
  return sizes.has_value();
}
bool store_in(std::vector<Sizes>& member, const FileValue& value) {
  member.clear();
  return std::ranges::all_of(value.list,
                             [&](const std::string& text) { return store_in(member.emplace_back(), {.text = text}); });
}
template <typename T>
bool store_in(T& member, const FileValue& value) {
  if constexpr (base::HasWords<T>) return base::read_text(value.text, member);
  if constexpr (kIsWhole<T>) member = value.bytes.bytes != 0 ? value.bytes.bytes : value.integer;
  if constexpr (std::is_same_v<T, double>) member = value.number;
  if constexpr (std::is_same_v<T, bool>) member = value.flag;
  if constexpr (std::is_same_v<T, std::string>) member = value.text;
  return true;
}

template <typename K>
K map_key(const std::string& name) {
  if constexpr (std::is_integral_v<K>) {
    K key = 0;
    std::from_chars(name.data(), name.data() + name.size(), key);
    return key;
  } else {
    return name;
  }
}

/// The member of the map's record that is meant, or the map's value as it is.
template <typename Value, typename... About>
Value& part_of(Value& value, const About&... /*about*/) {
  return value;
}
template <typename Value, auto field, typename... About>
auto& part_of(Value& value, const Only<field>& /*only*/, const About&... /*about*/) {
  return value.*field;
}

/// Stores a value in the member that `path` leads to.
class ValueStorer {
 public:
  ValueStorer(std::string_view path, const FileValue& value, bool& is_stored)
      : path_(path), value_(value), is_stored_(is_stored) {}

  template <typename T, typename... About>
  void operator()(std::string_view name, T& member, const About&... about) const {
    if constexpr (IsMap<T>::value) {
      for (const std::string& each : said_by(about...).names)
        if (const std::string whole = std::string(name) + "." + each; is_on_path(whole))
          store(whole, part_of(member[map_key<typename T::key_type>(each)], about...));
    } else if (is_on_path(name)) {
      store(name, member);
    }
  }

 private:
  bool is_on_path(std::string_view name) const {
    return path_.starts_with(name) && (path_.size() == name.size() || path_[name.size()] == '.');
  }
  template <typename T>
  void store(std::string_view name, T& member) const {
    if constexpr (base::Record<T>) {
      if (path_.size() > name.size())
        visit_fields(ValueStorer(path_.substr(name.size() + 1), value_, is_stored_), member);
    } else if (path_.size() == name.size()) {
      is_stored_ = store_in(member, value_);
    }
  }

  std::string_view path_;
  const FileValue& value_;
  bool& is_stored_;
};

}  // namespace

template <typename Record>
bool store(Record& record, const FileKey& key, const FileValue& value) {
  bool is_stored = false;
  visit_fields(ValueStorer(key.path, value, is_stored), record);
  return is_stored;
}
template bool store(Chip& record, const FileKey& key, const FileValue& value);
template bool store(Link& record, const FileKey& key, const FileValue& value);

schema::Member FileValue::member(Kind kind) {
  switch (kind) {
    case Kind::integer:
      return &integer;
    case Kind::number:
      return &number;
    case Kind::flag:
      return &flag;
    case Kind::text:
      return &text;
    case Kind::list:
      return &list;
    case Kind::bytes:
      break;
  }
  return &bytes;
}

std::span<const FileKey> chip_keys() {
  static const std::vector<FileKey> keys = keys_of<Chip>();
  return keys;
}

std::span<const FileKey> link_keys() {
  static const std::vector<FileKey> keys = keys_of<Link>();
  return keys;
}

const FileKey* find_chip_key(std::string_view path) {
  const auto keys = chip_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const FileKey& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string> words_of(std::string_view section) {
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  std::vector<std::string> words;
  for (const FileKey& key : chip_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const size_t end = key.path.find('.', prefix.size());
    std::string word = key.path.substr(prefix.size(), end == std::string::npos ? end : end - prefix.size());
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

std::string key_table() {
  std::string table = "| key | kind | needs a source | range | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const FileKey& key : chip_keys()) table += schema::table_row(key, key.is_fact ? "yes" : "");
  for (const FileKey& key : link_keys()) {
    schema::KeySpec spec = key;
    spec.path = "links[]." + spec.path;
    table += schema::table_row(spec, key.is_fact ? "yes" : "");
  }
  return table;
}

}  // namespace megacpp::hw
