// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/number_flag.h"

#include <utility>

#include <CLI/CLI.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/value.h"

namespace megacpp::cli {
namespace {

std::string wanted_text(const NumberFlag& flag, schema::Kind kind, const std::string& text) {
  const std::string range = schema::describe(flag.range);
  const bool is_too_long = kind == schema::Kind::integer && schema::is_beyond_counting(text);
  return std::string(schema::kind_name(kind)) + (is_too_long ? " of 64 bits" : "") +
         (range.empty() ? "" : ", " + range);
}

template <typename Number>
Number read_number(const NumberFlag& flag, const std::string& text) {
  Number number{};
  const schema::Member member = &number;
  MEGACPP_REQUIRE(
      schema::read_scalar(text, member) && schema::contains(flag.range, member), E1007,
      {.where = flag.name,
       .got = "'" + text + "'",
       .wanted = wanted_text(flag, schema::kind_of(member), text),
       .next = flag.name.starts_with("-") ? "give such a number, or leave the flag out" : "give such a number"});
  return number;
}

template <typename Number>
CLI::Option* declare(CLI::App& app, const NumberFlag& flag, std::function<void(Number)> take) {
  const std::string range = schema::describe(flag.range);
  const std::string type = std::is_same_v<Number, int64_t> ? kWholeNumber : kNumber;
  return app
      .add_option_function<std::string>(
          flag.name, [flag, take = std::move(take)](const std::string& text) { take(read_number<Number>(flag, text)); },
          flag.help)
      ->type_name(range.empty() ? type : type + " (" + range + ")");
}

}  // namespace

CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, std::function<void(int64_t)> take) {
  return declare(app, flag, std::move(take));
}

CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, int64_t& number) {
  return declare<int64_t>(app, flag, [&number](int64_t given) { number = given; });
}

CLI::Option* declare_number(CLI::App& app, const NumberFlag& flag, double& number) {
  return declare<double>(app, flag, [&number](double given) { number = given; });
}

}  // namespace megacpp::cli
