// SPDX-License-Identifier: Apache-2.0
// Pages that are one file: styles and pictures stand inside, nothing is loaded from anywhere and nothing runs. They
// follow the reader's choice of light or dark. All texts are escaped here, pictures (svg.h) are taken as they are.
// Pages of the dashboard (serve/page.h) are made of the same parts in a document of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megacpp::report {

/// `text` as it may stand between tags or in a quoted attribute: valid UTF-8 without markup and control characters.
std::string escape(std::string_view text);

/// Headings; one that starts with '>' stands right, as numbers do. Cells that are sentences are broken into lines.
struct Table {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;  // as many cells as headings
};

/// Of every page.
std::string_view style();

class Page {
 public:
  explicit Page(std::string title = "");

  void heading(std::string_view text);
  void subheading(std::string_view text);
  void paragraph(std::string_view text);
  /// A verdict: a paragraph that is seen first.
  enum class Tone { good, bad, plain };
  void banner(std::string_view text, Tone tone);
  void figure(std::string_view svg, std::string_view caption);
  void table(const Table& table);
  /// A table that is long: closed until the reader opens it.
  void folded_table(std::string_view summary, const Table& table);
  /// A text with lines of its own, closed too.
  void folded_text(std::string_view summary, std::string_view text);
  /// HTML that was made elsewhere, as it is.
  void html(std::string_view html) { body_ += html; }

  /// What stands below the title.
  const std::string& body() const { return body_; }
  /// The whole document.
  std::string to_text() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace megacpp::report
