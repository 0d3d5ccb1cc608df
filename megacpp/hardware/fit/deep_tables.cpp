// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/deep_tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/compile/state_table.h"

namespace megacpp::fit {
namespace {

using compile::CollectiveRow;
using plan::ParameterRow;

int64_t elements_of(const compile::Compiled& compiled) {
  int64_t elements = 0;
  for (const blocks::Parameter& parameter : compiled.parameters) elements += ir::num_elements(parameter.shape);
  return elements;
}

std::vector<ParameterRow> rows_of(const ShallowPlan& plan) {
  std::vector<std::vector<blocks::Parameter>> by_stage;
  for (size_t stage = 0; stage < plan.compiled.stages.size(); ++stage)
    by_stage.push_back(plan.compiled.parameters_of(stage));
  return plan::parameter_table(plan.planned.plan(), by_stage);
}

// ---- Collectives

/// All but the bytes and what is counted.
auto kind_of(const CollectiveRow& row) {
  return std::tie(row.stage, row.phase, row.kind, row.axes, row.where, row.removal.purpose, row.removal.changes,
                  row.removal.note);
}

using Rows = std::vector<CollectiveRow>;

Rows of_kind(const Rows& rows, const CollectiveRow& like) {
  Rows found;
  std::ranges::copy_if(rows, std::back_inserter(found),
                       [&like](const CollectiveRow& row) { return kind_of(row) == kind_of(like); });
  return found;
}

int64_t call_count_of(const Rows& rows) {
  int64_t calls = 0;
  for (const CollectiveRow& row : rows) calls += row.calls;
  return calls;
}

int64_t sent_bytes_of(const Rows& rows) {
  int64_t bytes = 0;
  for (const CollectiveRow& row : rows) bytes += row.total_bytes();
  return bytes;
}

/// Whether the same calls are made at both depths, more or fewer of each.
bool are_same(const Rows& a, const Rows& b) {
  return std::ranges::equal(
      a, b, [](const CollectiveRow& x, const CollectiveRow& y) { return x.bytes == y.bytes && x.cause == y.cause; });
}

/// Of one kind, as in the model.
Rows deep_rows(const ShallowDepths& depths, const Rows& middle, const Rows& last) {
  Rows rows = last;
  if (!are_same(middle, last)) {
    CollectiveRow& all = rows.front();
    all.calls = std::max<int64_t>(1, depths.extended(call_count_of(middle), call_count_of(last)));
    all.bytes = depths.extended(sent_bytes_of(middle), sent_bytes_of(last)) / all.calls;
    if (all.cost_bytes && !middle.empty() && middle.front().cost_bytes)
      all.cost_bytes = depths.extended(*middle.front().cost_bytes, *all.cost_bytes);
    rows.resize(1);
    return rows;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].calls = depths.extended(middle[i].calls, rows[i].calls);
    if (rows[i].cost_bytes && middle[i].cost_bytes)
      rows[i].cost_bytes = depths.extended(*middle[i].cost_bytes, *rows[i].cost_bytes);
  }
  return rows;
}

}  // namespace

int64_t deep_parameters(const ShallowPlans& shallow) {
  return shallow.extended([](const ShallowPlan& plan) { return elements_of(plan.compiled); });
}

std::vector<ParameterRow> deep_parameter_table(const ShallowPlans& shallow) {
  const std::vector<ParameterRow> middle = rows_of(shallow.plans[1]);
  std::vector<ParameterRow> rows = rows_of(shallow.plans[2]);
  MEGACPP_CHECK(middle.size() == rows.size()) << "blocks that repeat have parameters of their own";
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].count = shallow.depths.extended(middle[i].count, rows[i].count);
    rows[i].stored_bytes = shallow.depths.extended(middle[i].stored_bytes, rows[i].stored_bytes);
  }
  return rows;
}

plan::StateBytes deep_state_bytes(const ShallowPlans& shallow, size_t stage) {
  const auto at = [&](size_t i) {
    const ShallowPlan& plan = shallow.plans[i];
    return plan::state_bytes(plan.planned.plan(), plan.compiled.parameters_of(stage));
  };
  const plan::StateBytes middle = at(1);
  plan::StateBytes bytes = at(2);
  for (int64_t plan::StateBytes::*const part : {&plan::StateBytes::weights, &plan::StateBytes::kept,
                                                &plan::StateBytes::gradients, &plan::StateBytes::optimizer})
    bytes.*part = shallow.depths.extended(middle.*part, bytes.*part);
  return bytes;
}

int64_t deep_weight_copy_bytes(const ShallowPlans& shallow, size_t stage) {
  return shallow.extended([stage](const ShallowPlan& plan) {
    int64_t bytes = 0;
    for (const compile::StateTensor& tensor : plan.compiled.stages[stage].state)
      if (tensor.role == ir::Role::weight_copy) bytes += compile::local_type(tensor, plan.compiled.mesh).bytes();
    return bytes;
  });
}

ArgumentBytes deep_argument_bytes(const ShallowPlans& shallow, size_t stage, const hw::Chip& device) {
  const auto memory_at = [&](size_t i) -> const memory::MemoryPlan& {
    return shallow.plans[i].compiled.stages[stage].memory;
  };
  const std::map<std::string, int64_t> middle = argument_members(memory_at(1), shallow.plans[1].planned.recipe());
  std::map<std::string, int64_t> members = argument_members(memory_at(2), shallow.plans[2].planned.recipe());
  const auto have_same_names =
      std::ranges::equal(middle, members, [](const auto& a, const auto& b) { return a.first == b.first; });
  ArgumentBytes bytes = argument_bytes(memory_at(2), shallow.plans[2].planned.recipe(), device);
  if (have_same_names) {  // in loops: stacks of more blocks
    for (auto& [name, count] : members) count = shallow.depths.extended(middle.at(name), count);
    return argument_bytes(memory_at(2), shallow.plans[2].planned.recipe(), device, members);
  }
  const ArgumentBytes before = argument_bytes(memory_at(1), shallow.plans[1].planned.recipe(), device);
  for (int64_t ArgumentBytes::*const part :
       {&ArgumentBytes::weights, &ArgumentBytes::optimizer, &ArgumentBytes::batch, &ArgumentBytes::padding})
    bytes.*part = shallow.depths.extended(before.*part, bytes.*part);
  return bytes;
}

std::vector<CollectiveRow> deep_collectives(const ShallowPlans& shallow) {
  const auto at = [&](size_t i) {
    const ShallowPlan& plan = shallow.plans[i];
    return compile::collective_report(plan.compiled, plan.planned.plan(), plan::changes_to(plan.planned.recipe()));
  };
  const Rows middle = at(1), last = at(2);
  Rows rows;
  for (const CollectiveRow& row : last) {
    const bool is_known =
        std::ranges::any_of(rows, [&](const CollectiveRow& known) { return kind_of(known) == kind_of(row); });
    if (is_known) continue;
    for (CollectiveRow& deep : deep_rows(shallow.depths, of_kind(middle, row), of_kind(last, row)))
      rows.push_back(std::move(deep));
  }
  return rows;
}

}  // namespace megacpp::fit
