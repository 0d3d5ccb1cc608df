// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/tokenizer_json.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <memory>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/data/bpe/byte_alphabet.h"
#include "megacpp/run/data/bpe/json_checks.h"
#include "megacpp/run/data/tokenizer_def.h"

namespace megacpp::data::bpe {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr std::array<std::string_view, 5> kEndsOfDocument = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                                             "<|end▁of▁sentence|>"};

class BpeReader {
 public:
  BpeReader(const base::Json& root, const std::string& name) : root_{root, name + ":"}, name_(name) {}

  BpeModel read(std::string_view config) {
    model_.name = name_;
    if (!root_.value.is_object()) refuse_tokenizer(name_, std::string(base::kind_name(root_.value)), "an object");
    if (const base::Json* normalizer = base::find_member(root_.value, "normalizer"))
      add_normalizer({*normalizer, name_ + ": normalizer"});
    const base::Json* pre_tokenizer = base::find_member(root_.value, "pre_tokenizer");
    const JsonPlace bpe = {root_.member("model").value, name_ + ": model"};
    check_model(bpe);
    model_.pre_tokenizer = PreTokenizer::parse(pre_tokenizer, name_);
    model_.ignore_merges = bpe.flag("ignore_merges", false);
    add_vocabulary(bpe.member("vocab"));
    add_added_tokens();
    check_ids();
    find_byte_tokens();
    add_merges(bpe.member("merges"));
    model_.end_of_document = find_end_of_document(config);
    model_.fingerprint = fingerprint(pre_tokenizer);
    return std::move(model_);
  }

 private:
  void add_normalizer(const JsonPlace& place) {
    if (place.value.is_null()) return;
    const std::string& type = place.text("type");
    if (type == "NFC") {
      model_.nfc = true;
    } else if (type == "Sequence") {
      const JsonPlace list = place.member("normalizers");
      if (!list.value.is_array()) refuse_tokenizer(list.path, std::string(base::kind_name(list.value)), "a list");
      for (const base::Json& entry : list.value) add_normalizer({entry, list.path});
    } else {
      refuse_tokenizer_part(place.path, "the normalizer " + type, "NFC or none");
    }
  }

  void check_model(const JsonPlace& bpe) const {
    if (base::find_member(bpe.value, "type") != nullptr && bpe.text("type") != "BPE")
      refuse_tokenizer_part(bpe.path + ".type", "the model " + bpe.text("type"), "BPE");
    if (bpe.flag("byte_fallback", false))
      refuse_tokenizer_part(bpe.path + ".byte_fallback", "true", "a byte-level BPE, whose characters are bytes");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const base::Json* found = base::find_member(bpe.value, key);
      if (found == nullptr || found->is_null()) continue;
      if (!bpe.text(key).empty()) refuse_tokenizer_part(bpe.path + "." + key, "'" + bpe.text(key) + "'", "none");
    }
    const base::Json* dropout = base::find_member(bpe.value, "dropout");
    if (dropout != nullptr && !dropout->is_null() && base::as_number(*dropout) != 0.0)
      refuse_tokenizer_part(bpe.path + ".dropout", "dropout", "none: the same text is to give the same tokens");
  }

  int32_t id_at(const JsonPlace& place) const {
    const std::optional<int64_t> id = base::as_integer(place.value);
    if (!id || *id < 0 || *id >= kMostTokens)
      refuse_tokenizer(place.path, id ? std::to_string(*id) : std::string(base::kind_name(place.value)),
                       "an id from 0 to " + std::to_string(kMostTokens - 1));
    return static_cast<int32_t>(*id);
  }

  void add_vocabulary(const JsonPlace& vocab) {
    if (!vocab.value.is_object())
      refuse_tokenizer(vocab.path, std::string(base::kind_name(vocab.value)), "an object of tokens and their ids");
    for (const auto& [text, value] : vocab.value.items()) {
      const JsonPlace place = {value, vocab.path + "." + text};
      const int32_t id = id_at(place);
      ids_.emplace(text, id);
      add_token(id, from_alphabet(text).value_or(text), place.path);
    }
  }

  void add_token(int32_t id, std::string bytes, const std::string& path) {
    const auto index = static_cast<size_t>(id);
    if (index >= known_.size()) known_.resize(index + 1), model_.tokens.resize(index + 1);
    if (known_[index])
      refuse_tokenizer(path, "id " + std::to_string(id) + ", which another token has", "an id of its own");
    known_[index] = true;
    model_.tokens[index] = std::move(bytes);
    ++tokens_;
  }

  void add_added_tokens() {
    const base::Json* list = base::find_member(root_.value, "added_tokens");
    if (list == nullptr || list->is_null()) return;
    const std::string path = name_ + ": added_tokens";
    if (!list->is_array()) refuse_tokenizer(path, std::string(base::kind_name(*list)), "a list");
    std::unordered_set<std::string> contents;
    for (size_t i = 0; i < list->size(); ++i) {
      const AddedToken token = added_token({(*list)[i], path + "[" + std::to_string(i) + "]"});
      if (!contents.insert(token.content).second)
        refuse_tokenizer(path + "[" + std::to_string(i) + "]", "'" + token.content + "' a second time",
                         "each token once");
      model_.added.push_back(token);
    }
  }

  AddedToken added_token(const JsonPlace& place) {
    AddedToken token = {.content = place.text("content"),
                        .id = id_at(place.member("id")),
                        .single_word = place.flag("single_word", false),
                        .lstrip = place.flag("lstrip", false),
                        .rstrip = place.flag("rstrip", false),
                        .normalized = place.flag("normalized", !place.flag("special", false))};
    if (token.content.empty()) refuse_tokenizer(place.path + ".content", "no text", "the text of a token");
    const auto in_vocabulary = ids_.find(token.content);
    if (in_vocabulary == ids_.end()) {
      ids_.emplace(token.content, token.id);
      add_token(token.id, token.content, place.path);
    } else if (in_vocabulary->second != token.id) {
      refuse_tokenizer(place.path, "id " + std::to_string(token.id),
                       "that of '" + token.content + "' in the vocabulary, " + std::to_string(in_vocabulary->second));
    }
    model_.tokens[static_cast<size_t>(token.id)] = token.content;
    return token;
  }

  void check_ids() const {
    if (tokens_ == model_.tokens.size()) return;
    size_t gap = 0;
    while (known_[gap]) ++gap;
    refuse_tokenizer(name_ + ": model.vocab",
                     std::to_string(tokens_) + " tokens with ids up to " + std::to_string(known_.size() - 1) +
                         "; none has id " + std::to_string(gap),
                     "ids without gaps");
  }

  void find_byte_tokens() {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text(char_of_byte(static_cast<uint8_t>(byte)));
      const auto found = ids_.find(text);
      if (found == ids_.end())
        refuse_tokenizer(name_ + ": model.vocab", "no token for the byte " + std::to_string(byte) + ", '" + text + "'",
                         "a token for each byte, so that any text has tokens");
      model_.byte_tokens[static_cast<size_t>(byte)] = found->second;
    }
  }

  void add_merges(const JsonPlace& merges) {
    if (!merges.value.is_array())
      refuse_tokenizer(merges.path, std::string(base::kind_name(merges.value)), "a list of merges");
    for (size_t rank = 0; rank < merges.value.size(); ++rank) {
      const JsonPlace place = {merges.value[rank], merges.path + "[" + std::to_string(rank) + "]"};
      const auto [left, right] = merge_at(place);
      model_.merges.push_back(
          {.left = id_of(left, place), .right = id_of(right, place), .merged = id_of(left + right, place)});
    }
  }

  /// "a b" or ["a", "b"]
  std::pair<std::string, std::string> merge_at(const JsonPlace& place) const {
    if (const std::string* text = base::as_text(place.value)) {
      const size_t blank = text->find(' ');
      if (blank == std::string::npos || text->find(' ', blank + 1) != std::string::npos)
        refuse_tokenizer(place.path, "'" + *text + "'", "two tokens with a blank between them");
      return {text->substr(0, blank), text->substr(blank + 1)};
    }
    const bool is_pair = place.value.is_array() && place.value.size() == 2;
    const std::string* left = is_pair ? base::as_text(place.value[0]) : nullptr;
    const std::string* right = is_pair ? base::as_text(place.value[1]) : nullptr;
    if (left == nullptr || right == nullptr) refuse_tokenizer(place.path, "something else", "two tokens");
    return {*left, *right};
  }

  int32_t id_of(const std::string& token, const JsonPlace& place) const {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      refuse_tokenizer(place.path, "'" + token + "', which the vocabulary lacks", "tokens of the vocabulary");
    return found->second;
  }

  /// The one that tokenizer_config.json names, else the first with a name that published models give it.
  std::optional<int32_t> find_end_of_document(std::string_view config) const {
    if (!config.empty()) {
      const base::Json parsed = base::parse_json(config, base::Code::E1111, "tokenizer_config.json beside " + name_);
      const base::Json* token = base::find_member(parsed, "eos_token");
      if (token != nullptr && token->is_object()) token = base::find_member(*token, "content");
      const std::string* text = token != nullptr ? base::as_text(*token) : nullptr;
      const auto found = text != nullptr ? ids_.find(*text) : ids_.end();
      if (found != ids_.end()) return found->second;
    }
    for (const std::string_view name : kEndsOfDocument) {
      const auto found = ids_.find(std::string(name));
      if (found != ids_.end()) return found->second;
    }
    return std::nullopt;
  }

  uint64_t fingerprint(const base::Json* pre_tokenizer) const {
    const std::unique_ptr<XXH64_state_t, XXH_errorcode (*)(XXH64_state_t*)> state(XXH64_createState(), XXH64_freeState);
    XXH64_reset(state.get(), 0);
    const auto number = [&](int64_t value) { XXH64_update(state.get(), &value, sizeof(value)); };
    const auto text = [&](const std::string& value) {
      number(static_cast<int64_t>(value.size()));
      XXH64_update(state.get(), value.data(), value.size());
    };
    text(pre_tokenizer != nullptr ? base::to_text(*pre_tokenizer) : "");
    number(model_.nfc), number(model_.ignore_merges), number(model_.end_of_document.value_or(-1));
    for (const std::string& token : model_.tokens) text(token);
    for (const Merge& merge : model_.merges) number(merge.left), number(merge.right), number(merge.merged);
    for (const AddedToken& token : model_.added)
      number(token.id), number(token.single_word), number(token.lstrip), number(token.rstrip), number(token.normalized);
    return XXH64_digest(state.get());
  }

  JsonPlace root_;
  std::string name_;
  BpeModel model_;
  std::unordered_map<std::string, int32_t> ids_;  // of tokens as the file writes them
  std::vector<bool> known_;                       // by id
  size_t tokens_ = 0;
};

std::unique_ptr<const Tokenizer> load_json(const std::filesystem::path& file) {
  const std::filesystem::path config = file.parent_path() / "tokenizer_config.json";
  std::error_code ignored;
  const std::string beside = std::filesystem::exists(config, ignored) ? base::read_file(config) : "";
  return std::make_unique<BpeTokenizer>(read_bpe(base::read_file(file), file.string(), beside));
}

base::Json special_json(const std::string& content, size_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

base::Json byte_level_json(bool trim_offsets) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim_offsets}, {"use_regex", false}};
}

}  // namespace

BpeModel read_bpe(std::string_view text, const std::string& name, std::string_view config) {
  return BpeReader(base::parse_json(text, base::Code::E1111, name), name).read(config);
}

std::string write_bpe(const TrainedBpe& trained) {
  base::Json vocab = base::Json::object(), merges = base::Json::array(), added = base::Json::array();
  auto& members = vocab.get_ref<base::Json::object_t&>();  // appended: insertion looks through all keys
  for (size_t id = 0; id < trained.tokens.size(); ++id) members.emplace_back(to_alphabet(trained.tokens[id]), id);
  for (const Merge& merge : trained.merges)
    merges.push_back(to_alphabet(trained.tokens[static_cast<size_t>(merge.left)]) + " " +
                     to_alphabet(trained.tokens[static_cast<size_t>(merge.right)]));
  for (size_t i = 0; i < trained.special.size(); ++i)
    added.push_back(special_json(trained.special[i], trained.tokens.size() + i));
  const base::Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", llama3_words().regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  const base::Json root = {{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", added},
                           {"normalizer", nullptr},
                           {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_json(true)}}}},
                           {"post_processor", nullptr},
                           {"decoder", byte_level_json(true)},
                           {"model",
                            {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", vocab},
                             {"merges", merges}}}};
  return base::to_text(root, 2) + "\n";
}

}  // namespace megacpp::data::bpe

namespace megacpp::data {

TokenizerDef tokenizer_json_tokenizer() {
  return {.name = "tokenizer_json",
          .file_name = "tokenizer.json",
          .doc = "Hugging Face's byte-level BPE",
          .recognises =
              [](std::string_view head) {
                const size_t first = head.find_first_not_of(" \t\r\n");
                return first != std::string_view::npos && head[first] == '{';
              },
          .load = bpe::load_json};
}

}  // namespace megacpp::data
