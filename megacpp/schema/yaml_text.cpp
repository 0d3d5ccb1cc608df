// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schema/yaml_text.h"

#include <algorithm>
#include <vector>

#include "megacpp/base/utf8.h"

namespace megacpp::schema {
namespace {

constexpr int kMaxLevels = 32;
constexpr int kMaxNodes = 1'000'000;  // aliases counted as often as they stand
constexpr const char* kWantedText = "text in UTF-8 without control characters";

/// What raises the errors of one text.
class Text {
 public:
  Text(base::Code code, const std::string& file) : code_(code), file_(file) {}

  /// `line` counts from 0; below: not known.
  [[noreturn]] void refuse(long line, const std::string& got, const std::string& wanted,
                           const std::string& next) const {
    base::raise(code_, {.where = line < 0 ? file_ : file_ + ":" + std::to_string(line + 1),
                        .got = got,
                        .wanted = wanted,
                        .next = next});
  }

  /// Line ends of other systems are fine.
  void require_characters(const std::string& text) const {
    size_t begin = 0;
    for (long line = 0; begin < text.size(); ++line) {
      size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view whole = std::string_view(text).substr(begin, end - begin);
      const std::string_view content = whole.ends_with('\r') ? whole.substr(0, whole.size() - 1) : whole;
      if (base::printable(content) != content)
        refuse(line, base::printable(content), kWantedText, "remove what is shown as \\x.. in that line");
      begin = end + 1;
    }
  }

  /// Values in quotes may spell any character, and aliases nest without an end.
  void require_scalars(const YAML::Node& node, int depth = 0) {
    if (depth > kMaxLevels || ++nodes_ > kMaxNodes)
      refuse(node.Mark().line, "values nested too deeply", "at most " + std::to_string(kMaxLevels) + " levels",
             "take the anchors and inner groups out");
    if (node.IsScalar() && base::printable(node.Scalar()) != node.Scalar())
      refuse(node.Mark().line, "'" + node.Scalar() + "'", kWantedText, "remove what is shown as \\x..");
    if (node.IsSequence())
      for (const YAML::Node& item : node) require_scalars(item, depth + 1);
    if (node.IsMap())
      for (const auto& entry : node) {
        require_scalars(entry.first, depth + 1);
        require_scalars(entry.second, depth + 1);
      }
  }

 private:
  base::Code code_;
  const std::string& file_;
  int nodes_ = 0;
};

}  // namespace

YAML::Node load_yaml(const std::string& text, base::Code code, const std::string& file) {
  Text checks(code, file);
  checks.require_characters(text);
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    checks.refuse(error.mark.is_null() ? -1 : error.mark.line, error.msg, "YAML",
                  "check the indentation and the quotes of that line");
  }
  if (documents.empty()) return {};
  if (documents.size() > 1)
    checks.refuse(documents[1].Mark().line, "a second document", "one document",
                  "take out the line '---' and what follows it");
  checks.require_scalars(documents[0]);
  return documents[0];
}

}  // namespace megacpp::schema
