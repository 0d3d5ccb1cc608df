// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/oom_report.h"

#include <nlohmann/json.hpp>

namespace megacpp::catalog {
namespace {

using base::Json;

// One list of members for both directions: a visitor writes or reads each.

template <typename Visit, typename Record>
void visit_subject(const Visit& visit, Record& subject) {
  visit("model", subject.model);
  visit("pattern", subject.pattern);
  visit("depth", subject.depth);
  visit("hidden", subject.hidden);
  visit("batch", subject.batch);
  visit("sequence", subject.sequence);
  visit("micro_steps", subject.micro_steps);
  visit("precision", subject.precision);
  visit("layout", subject.layout);
  visit("mesh", subject.mesh);
  visit("hardware", subject.hardware);
  visit("backend", subject.backend);
}

template <typename Visit, typename Record>
void visit_bytes(const Visit& visit, Record& bytes) {
  visit("what", bytes.what);
  visit("scope", bytes.scope);
  visit("bytes", bytes.bytes);
}

template <typename Visit, typename Record>
void visit_reduction(const Visit& visit, Record& reduction) {
  visit("rung", reduction.rung);
  visit("name", reduction.name);
  visit("settings", reduction.settings);
  visit("outcome", reduction.outcome);
  visit("reason", reduction.reason);
  visit("needed_bytes", reduction.needed_bytes);
  visit("limit_bytes", reduction.limit_bytes);
}

template <typename Visit, typename Record>
void visit_report(const Visit& visit, Record& report) {
  visit("code", report.code);
  visit("class", report.oom_class);
  visit("phase", report.phase);
  visit("step", report.step);
  visit("first_step", report.first_step);
  visit("chip", report.chip);
  visit("wanted_bytes", report.wanted_bytes);
  visit("limit_bytes", report.limit_bytes);
  visit("injected", report.is_injected);
  visit("subject", report.subject);
  visit("roles", report.roles);
  visit("largest", report.largest);
  visit("reductions", report.reductions);
  visit("ending", report.ending);
  visit("message", report.message);
}

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) const {
    object_[name] = json_of(value);
  }

  template <typename Visit>
  static Json object_by(const Visit& visit) {
    Json object = Json::object();
    visit(Writer(object));
    return object;
  }

 private:
  explicit Writer(Json& object) : object_(object) {}

  template <typename T>
  static Json json_of(const T& value) {
    return Json(value);
  }
  static Json json_of(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }
  static Json json_of(const OomSubject& value) {
    return object_by([&](const Writer& writer) { visit_subject(writer, value); });
  }
  static Json json_of(const OomBytes& value) {
    return object_by([&](const Writer& writer) { visit_bytes(writer, value); });
  }
  static Json json_of(const Reduction& value) {
    return object_by([&](const Writer& writer) { visit_reduction(writer, value); });
  }
  template <typename T>
  static Json json_of(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(json_of(value));
    return array;
  }

  Json& object_;
};

class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  template <typename T>
  void operator()(const char* name, T& value) const {
    if (const Json* member = base::find_member(object_, name)) read(*member, value);
  }

 private:
  static void read(const Json& json, std::string& value) {
    if (const std::string* text = base::as_text(json)) value = *text;
  }
  static void read(const Json& json, int64_t& value) { value = base::as_integer(json).value_or(value); }
  static void read(const Json& json, bool& value) { value = base::as_flag(json).value_or(value); }
  static void read(const Json& json, std::optional<int64_t>& value) { value = base::as_integer(json); }
  static void read(const Json& json, OomSubject& value) { visit_subject(Reader(json), value); }
  static void read(const Json& json, OomBytes& value) { visit_bytes(Reader(json), value); }
  static void read(const Json& json, Reduction& value) { visit_reduction(Reader(json), value); }
  template <typename T>
  static void read(const Json& json, std::vector<T>& values) {
    if (!json.is_array()) return;
    for (const Json& each : json) read(each, values.emplace_back());
  }

  const Json& object_;
};

}  // namespace

base::Json to_json(const OomReport& report) {
  return Writer::object_by([&](const Writer& writer) { visit_report(writer, report); });
}

OomReport oom_report_of(const base::Json& json) {
  OomReport report;
  visit_report(Reader(json), report);
  return report;
}

}  // namespace megacpp::catalog
