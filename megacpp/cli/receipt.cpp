// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/receipt.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/receipt/json_schema.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/receipt/text.h"

namespace megacpp::cli {
namespace {

struct ReceiptFlags {
  std::string run;
  bool json = false;
};

int show_receipt(const ReceiptFlags& flags) {
  const receipt::Receipt shown = receipt::receipt_of(flags.run);
  if (flags.json)
    print_json(base::parse_json(receipt::to_text(shown), base::Code::E9001, flags.run));
  else
    write_output(receipt::report_text(shown));
  return 0;
}

Command receipt_show_word() {
  return {
      .name = "show",
      .summary = "five answers, the verdict and every figure of a run, however it ended",
      .example = "megacpp receipt show latest\n  megacpp receipt show runs/nam52-tiny-20261116T214512Z --json",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<ReceiptFlags>();
        app.add_option("run", flags->run, "a run directory, a receipt file, or latest")->required()->type_name("DIR");
        app.add_flag("--json", flags->json, "print the receipt as it is stored");
        return [flags] { return show_receipt(*flags); };
      }};
}

Command receipt_schema_word() {
  return {.name = "schema",
          .summary = "the JSON Schema of receipts",
          .example = "megacpp receipt schema",
          .declare = [](CLI::App&) -> std::function<int()> {
            return [] {
              write_output(receipt::json_schema());
              return 0;
            };
          }};
}

}  // namespace

Command receipt_command() {
  return {.name = "receipt",
          .summary = "what a run leaves as evidence",
          .example = "megacpp receipt show latest",
          .declare = [](CLI::App& app) {
            return declare_words(app, {receipt_show_word(), receipt_schema_word()});
          }};
}

}  // namespace megacpp::cli
