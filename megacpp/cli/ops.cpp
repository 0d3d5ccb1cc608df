// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::cli {
namespace {

// How the CPU backend runs an op.
std::string cpu_form(const ops::OpDef& op) {
  if (runtime::backend_named("cpu").has_kernel(op.name)) return "kernel";
  if (op.fusion != ops::Fusion::none) return "fused";
  if (op.is_collective || op.is_tier_copy) return "none";
  return op.is_composite() ? "decomposed" : "view";
}

int list_ops(bool json) {
  Json rows = Json::array();
  if (!json) print_out("{:<22} {:<10} {:<11} {:<9} {}\n", "op", "kind", "gradient", "cpu", "meaning");
  for (const ops::OpDef& op : ops::all_ops()) {
    const std::string kind = op.is_composite() ? "composite" : "primitive", grad = op.grad ? "yes" : "none",
                      cpu = cpu_form(op);
    if (json) {
      rows.push_back(Json{{"name", op.name},
                          {"kind", kind},
                          {"gradient", grad},
                          {"why_no_gradient", op.no_grad},
                          {"cpu", cpu},
                          {"doc", op.doc}});
    } else {
      print_out("{:<22} {:<10} {:<11} {:<9} {}\n", op.name, kind, grad, cpu, op.doc);
    }
  }
  if (json) print_json({{"ops", rows}});
  return 0;
}

}  // namespace

Command ops_command() {
  return {.name = "ops",
          .summary = "list every op: kind, gradient, how the CPU runs it",
          .example = "megacpp ops --json",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "print JSON");
            return [json] { return list_ops(*json); };
          }};
}

}  // namespace megacpp::cli
