// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/yaml_text.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include <yaml-cpp/eventhandler.h>

#include "megacpp/core/base/utf8.h"

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

/// Notes the line of every document's first value, and builds nothing.
class DocumentLines : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { lines.push_back(mark.line); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<long> lines = {};
};

/// From 0. The library finds documents without end where a text begins with a mark that begins no value (", a"), so no
/// more than two are read.
std::optional<long> line_of_second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentLines documents;
  while (documents.lines.size() < 2 && parser.HandleNextDocument(documents)) continue;
  return documents.lines.size() < 2 ? std::nullopt : std::optional(documents.lines[1]);
}

}  // namespace

YAML::Node load_yaml(const std::string& text, base::Code code, const std::string& file) {
  Text checks(code, file);
  checks.require_characters(text);
  YAML::Node document;
  std::optional<long> second;
  try {
    document = YAML::Load(text);
    second = line_of_second_document(text);
  } catch (const YAML::Exception& error) {
    checks.refuse(error.mark.is_null() ? -1 : error.mark.line, error.msg, "YAML",
                  "check the indentation and the quotes of that line");
  }
  if (second)
    checks.refuse(*second, "a second document", "one document",
                  "take out what ends the first one: a line '---', or a mark that begins no value");
  checks.require_scalars(document);
  return document;
}

}  // namespace megacpp::schema
