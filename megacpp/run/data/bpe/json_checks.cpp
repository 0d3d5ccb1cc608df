// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/json_checks.h"

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"

namespace megacpp::data::bpe {

void refuse_tokenizer(std::string where, std::string got, std::string wanted) {
  base::raise(base::Code::E1111, {.where = std::move(where),
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "fetch the file again, or train a tokenizer: megacpp data train-tokenizer"});
}

void refuse_tokenizer_part(std::string where, std::string part, std::string wanted) {
  base::raise(base::Code::E1112, {.where = std::move(where),
                                  .got = std::move(part),
                                  .wanted = std::move(wanted),
                                  .next = "take a byte-level BPE without it; ids would not be those of its model"});
}

JsonPlace JsonPlace::member(std::string_view key) const {
  const base::Json* found = base::find_member(value, key);
  const std::string found_path = path + "." + std::string(key);
  if (found == nullptr) {
    const bool is_object = value.is_object();
    refuse_tokenizer(found_path, is_object ? "no such member" : std::string(base::kind_name(value)),
                     "the member " + std::string(key));
  }
  return {*found, found_path};
}

const std::string& JsonPlace::text(std::string_view key) const {
  const JsonPlace found = member(key);
  const std::string* text = base::as_text(found.value);
  if (text == nullptr) refuse_tokenizer(found.path, std::string(base::kind_name(found.value)), "text");
  return *text;
}

bool JsonPlace::flag(std::string_view key, bool missing) const {
  const base::Json* found = base::find_member(value, key);
  if (found == nullptr || found->is_null()) return missing;
  const std::optional<bool> flag = base::as_flag(*found);
  if (!flag) refuse_tokenizer(path + "." + std::string(key), std::string(base::kind_name(*found)), "true or false");
  return *flag;
}

}  // namespace megacpp::data::bpe
