// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/named_value.h"

#include <sstream>

namespace megacpp::runtime::pjrt {
namespace {

struct Printer {
  std::ostringstream& out;
  void operator()(int64_t value) const { out << value; }
  void operator()(const std::string& value) const { out << value; }
  void operator()(bool value) const { out << (value ? "true" : "false"); }
  void operator()(float value) const { out << value; }
  void operator()(const std::vector<int64_t>& values) const {
    out << '[';
    for (size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ",") << values[i];
    out << ']';
  }
};

}  // namespace

std::string to_string(const Value& value) {
  std::ostringstream out;
  std::visit(Printer{out}, value);
  return out.str();
}

std::string to_string(const NamedValue& value) { return value.name + "=" + to_string(value.value); }

}  // namespace megacpp::runtime::pjrt
