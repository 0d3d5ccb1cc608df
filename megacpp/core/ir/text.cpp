// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/text.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+' || c == '/';
}

bool is_word(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_word_char); }

// A real is told from an integer by its spelling: a point, an exponent, or one of the words inf and nan.
bool spells_real(std::string_view number) { return number.find_first_of(".en") != std::string_view::npos; }

class Printer {
 public:
  std::string graph(const Graph& graph) {
    text_ += "graph ";
    quoted(graph.name());
    text_ += " {\n";
    for (const Node& n : graph.nodes()) node(graph, n);
    for (const Output& o : graph.outputs()) output(o);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  template <typename Items, typename Each>
  void joined(const Items& items, std::string_view separator, const Each& each) {
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) text_ += separator;
      each(item);
    }
  }

  void node(const Graph& graph, const Node& node) {
    text_ += "  ";
    joined(node.results, ", ", [this](ValueId id) { value(id); });
    if (!node.results.empty()) text_ += " = ";
    word(node.op);
    text_ += '(';
    joined(node.operands, ", ", [this](ValueId id) { value(id); });
    text_ += ')';
    if (!node.attrs.empty()) attrs(node.attrs);
    if (!node.results.empty()) text_ += " : ";
    joined(node.results, ", ", [&](ValueId id) { type(graph.type(id)); });
    if (!node.scope.empty()) {
      text_ += " @";
      word(node.scope);
    }
    if (node.role != Role::temporary) (text_ += " #") += role_name(node.role);
    text_ += '\n';
  }

  void output(const Output& output) {
    text_ += "  output ";
    quoted(output.name);
    text_ += " = ";
    value(output.value);
    if (!output.donated.empty()) {
      text_ += " donates ";
      quoted(output.donated);
    }
    text_ += '\n';
  }

  void attrs(const Attrs& attrs) {
    text_ += " {";
    joined(attrs.entries(), ", ", [this](const auto& entry) {
      word(entry.first);
      text_ += '=';
      std::visit([this](const auto& item) { this->attr(item); }, entry.second);
    });
    text_ += '}';
  }

  void attr(int64_t item) { text_ += std::to_string(item); }
  void attr(double item) {
    char buffer[32];
    const std::string_view number(buffer, static_cast<size_t>(std::to_chars(buffer, buffer + 32, item).ptr - buffer));
    text_ += number;
    if (!spells_real(number)) text_ += ".0";
  }
  void attr(const std::string& item) { quoted(item); }
  void attr(const std::vector<int64_t>& items) {
    text_ += '[';
    joined(items, ",", [this](int64_t item) { attr(item); });
    text_ += ']';
  }

  void value(ValueId id) { (text_ += '%') += std::to_string(id.index); }
  void type(const TensorType& type) {
    text_ += dtype_name(type.dtype);
    attr(type.shape);
  }
  void word(std::string_view item) {
    if (is_word(item)) {
      text_ += item;
    } else {
      quoted(item);
    }
  }

  void quoted(std::string_view item) {
    text_ += '"';
    for (const char c : item) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (text_ += '\\') += c;
      } else if (c == '\n') {
        text_ += "\\n";
      } else if (byte < 0x20 || byte == 0x7f) {
        ((text_ += "\\x") += kHexDigits[byte >> 4]) += kHexDigits[byte & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph graph() {
    if (word("'graph'") != "graph") refuse_last("'graph'");
    Graph graph(quoted());
    expect('{');
    while (!accept('}')) statement(graph);
    if (peek() != '\0' || at_ != text_.size()) refuse_next("the end of the text");
    return graph;
  }

 private:
  void statement(Graph& graph) {
    std::vector<uint64_t> names;  // of the results
    if (peek() == '%') {
      do {
        names.push_back(value_name());
        if (values_.contains(names.back())) refuse_last("a number not used above");
      } while (accept(','));
      expect('=');
    }
    std::string op = word("a node, an output or '}'");
    if (names.empty() && op == "output" && peek() == '"') return output(graph);
    node(graph, std::move(op), names);
  }

  void node(Graph& graph, std::string op, const std::vector<uint64_t>& names) {
    Node node;
    node.op = std::move(op);
    expect('(');
    while (!accept(')')) {
      if (!node.operands.empty()) expect(',');
      node.operands.push_back(value());
    }
    if (accept('{')) node.attrs = attrs();
    std::vector<TensorType> types;
    if (!names.empty()) {
      expect(':');
      for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) expect(',');
        types.push_back(type());
      }
    }
    if (accept('@')) node.scope = word("a scope");
    if (accept('#')) node.role = role();
    const NodeId id = graph.append(std::move(node), types);
    for (size_t i = 0; i < names.size(); ++i) define(names[i], graph.node(id).results[i]);
  }

  void output(Graph& graph) {
    Output output{.name = quoted(), .value = {}};
    expect('=');
    output.value = value();
    if (peek() == 'd') {
      if (word("'donates'") != "donates") refuse_last("'donates'");
      output.donated = quoted();
    }
    graph.add_output(std::move(output));
  }

  Attrs attrs() {
    Attrs attrs;
    while (!accept('}')) {
      if (!attrs.empty()) expect(',');
      std::string name = word("the name of an attribute");
      if (attrs.has(name)) refuse_last("each attribute once");
      expect('=');
      attrs.set(std::move(name), attr());
    }
    return attrs;
  }

  Attr attr() {
    if (peek() == '"') return quoted();
    if (peek() == '[') return list();
    const std::string_view number = plain_word("a number, a \"text\" or a [list]");
    return spells_real(number) ? Attr(parsed<double>(number)) : Attr(parsed<int64_t>(number));
  }

  std::vector<int64_t> list() {
    std::vector<int64_t> items;
    expect('[');
    while (!accept(']')) {
      if (!items.empty()) expect(',');
      items.push_back(parsed<int64_t>(plain_word("an integer")));
    }
    return items;
  }

  TensorType type() {
    const auto dtype = parse_dtype(plain_word("a dtype"));
    if (!dtype.has_value()) refuse_last("f32, bf16, i32 or pred");
    TensorType type{*dtype, list()};
    for (const int64_t size : type.shape)
      if (size < 0) refuse_last("sizes of zero or more");
    return type;
  }

  Role role() {
    const auto role = parse_role(plain_word("a role"));
    if (!role.has_value()) refuse_last("weight, gradient, optimizer, batch, activation, temporary or collective");
    return *role;
  }

  uint64_t value_name() {
    expect('%');
    const size_t begin = last_;
    const uint64_t name = parsed<uint64_t>(plain_word("the number of a value"));
    last_ = begin;
    return name;
  }

  ValueId value() {
    const auto at = values_.find(value_name());
    if (at == values_.end()) refuse_last("a value defined above");
    return at->second;
  }

  void define(uint64_t name, ValueId id) {
    if (!values_.emplace(name, id).second) refuse_last("%" + std::to_string(name) + " defined once");
  }

  template <typename T>
  T parsed(std::string_view number) {
    T result{};
    const char* end = number.data() + number.size();
    const auto [stopped, error] = std::from_chars(number.data(), end, result);
    if (error != std::errc() || stopped != end) refuse_last("a number that fits");
    return result;
  }

  std::string word(std::string_view wanted) { return peek() == '"' ? quoted() : std::string(plain_word(wanted)); }

  std::string_view plain_word(std::string_view wanted) {
    if (!is_word_char(peek())) refuse_next(wanted);
    last_ = at_;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    return text_.substr(last_, at_ - last_);
  }

  std::string quoted() {
    expect('"');
    last_ = at_ - 1;
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n')
      result += text_[at_] == '\\' ? escaped() : text_[at_++];
    if (at_ == text_.size() || text_[at_] != '"') refuse_last("a closing '\"' on the same line");
    ++at_;
    return result;
  }

  char escaped() {
    const std::string_view rest = text_.substr(at_ + 1, 3);
    at_ += 2;
    if (rest.starts_with('n')) return '\n';
    if (rest.starts_with('"') || rest.starts_with('\\')) return rest[0];
    at_ += 2;
    const size_t high = rest.size() == 3 ? kHexDigits.find(rest[1]) : std::string_view::npos;
    const size_t low = rest.size() == 3 ? kHexDigits.find(rest[2]) : std::string_view::npos;
    if (!rest.starts_with('x') || high > 15 || low > 15) refuse_last("the escapes \\n, \\\", \\\\ and \\xhh");
    return static_cast<char>(high * 16 + low);
  }

  // The next character that is not a space; NUL at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c) return false;
    last_ = at_++;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse_next(std::string("'") + c + "'");
  }

  [[noreturn]] void refuse_next(std::string_view wanted) {
    last_ = at_;
    refuse_last(wanted);
  }

  // The offence is the word read last.
  [[noreturn]] void refuse_last(std::string_view wanted) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(last_), '\n');
    const std::string_view rest = text_.substr(last_, 40);
    const std::string_view got = rest.substr(0, rest.find('\n'));
    base::raise(base::Code::E1301,
                {.where = "program text, line " + std::to_string(line),
                 .got = got.empty() ? "the end of the line" : "'" + std::string(got) + "'",
                 .wanted = std::string(wanted),
                 .next = "correct the line; megacpp compile --dump-dir writes programs to compare with"});
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t last_ = 0;  // where the word read last begins
  std::unordered_map<uint64_t, ValueId> values_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer().graph(graph); }

Graph parse(std::string_view text) { return Parser(text).graph(); }

}  // namespace megacpp::ir
