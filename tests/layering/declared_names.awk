# SPDX-License-Identifier: Apache-2.0
# Prints the names that C++ files declare at namespace scope, a line each: the namespace, the name, "local" (anonymous
# namespace) or "shared", file:line, and for an alias what it stands for. Knows as much of C++ as the house style needs.

# The line without comments and the insides of strings; `raw` is the end of a raw string that is still open.
function without_text(line,   out, i, c, length_of, end) {
  out = ""
  length_of = length(line)
  for (i = 1; i <= length_of; ++i) {
    if (raw != "") {
      end = index(substr(line, i), raw)
      if (end == 0) return out
      i += end + length(raw) - 2
      raw = ""
      continue
    }
    c = substr(line, i, 1)
    if (c == "/" && substr(line, i + 1, 1) == "/") return out
    if (c == "R" && substr(line, i - 1, 1) !~ /[A-Za-z0-9_]/ && match(substr(line, i), /^R"[^ ()]*\(/)) {
      raw = ")" substr(line, i + 2, RLENGTH - 3) "\""
      i += RLENGTH - 1
      continue
    }
    if (c == "'" && substr(line, i - 1, 1) ~ /[0-9A-Fa-f]/) continue  # between digits
    if (c == "\"" || c == "'") {
      for (++i; i <= length_of && substr(line, i, 1) != c; ++i)
        if (substr(line, i, 1) == "\\") ++i
      c = "0"
    }
    out = out c
  }
  return out
}

function without_template_arguments(text) {
  gsub(/<=>|<<|>>=/, " ", text)
  while (match(text, /<[^<>]*>/)) text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
  return text
}

# The name that a declaration gives, "" where it gives none of interest. Macros, PrintTo (googletest finds it by its
# parameter) and definitions of members are none. Sets `alias`.
function declared(text) {
  alias = text ~ /^[ \t]*(using|namespace) +[A-Za-z_0-9]+ *=/ ? text : ""
  gsub(/[ \t]+/, "", alias)
  gsub(/\[\[[^\]]*\]\]/, "", text)
  text = without_template_arguments(text)
  sub(/^[ \t]+(template[ \t]+)?/, "", text)
  if (text ~ /^(using namespace|static_assert|friend|TEST|TYPED_TEST|INSTANTIATE_|HWY_|MEGACPP_)/ || text ~ /operator|PrintTo\(/) return ""
  if (match(text, /^(struct|class|union|enum class|enum) +[A-Za-z_0-9]+/)) text = substr(text, 1, RLENGTH)
  sub(/ *[=([].*/, "", text)
  sub(/[ \t]+$/, "", text)
  if (text !~ /[ *&][A-Za-z_0-9]+$/) return ""
  sub(/.*[ *&]/, "", text)
  return text
}

function note(   name, space, i) {
  if (kind[depth] == "other") return
  name = declared(statement)
  if (name == "" || (FILENAME, name, locals) in seen) return
  seen[FILENAME, name, locals] = 1
  space = ""
  for (i = 1; i <= depth; ++i) if (kind[i] == "named") space = space "::" label[i]
  print space, name, (locals ? "local" : "shared"), FILENAME ":" FNR, alias
}

function open_scope(   name) {
  ++depth
  if (match(statement, /namespace *[A-Za-z_0-9:]* *$/)) {
    name = substr(statement, RSTART + 9)
    gsub(/ /, "", name)
    kind[depth] = name == "" ? "anonymous" : "named"
    label[depth] = name
    if (name == "") ++locals
  } else {
    --depth
    note()
    kind[++depth] = "other"
  }
}

FNR == 1 { depth = locals = parens = 0; kind[0] = "named"; label[0] = statement = raw = "" }
raw == "" && /^ *#/ { next }
{
  text = without_text($0) " "
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (c == "(") ++parens
    if (c == ")") --parens
    if (parens > 0 || c !~ /[{};]/) {
      statement = statement c
      continue
    }
    if (c == "{") open_scope()
    if (c == ";") note()
    if (c == "}" && depth > 0 && kind[depth--] == "anonymous") --locals
    statement = ""
  }
}
