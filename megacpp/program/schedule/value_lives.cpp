// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/value_lives.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace megacpp::schedule {
namespace {

bool is_view(const ir::Node& node) { return node.op == "reshape"; }

}  // namespace

ValueLives::ValueLives(const ir::Graph& graph)
    : graph_(graph),
      readers_(graph.values().size()),
      is_output_(graph.values().size()),
      is_replaced_(graph.nodes().size()) {
  const auto users = graph.users();
  for (size_t v = 0; v < users.size(); ++v)
    for (const ir::NodeId user : users[v]) readers_[v].push_back(user.index);
  std::set<std::string_view> replaced;
  for (const ir::Output& output : graph.outputs()) {
    is_output_[output.value.index] = true;
    if (!output.donated.empty()) replaced.insert(output.donated);
  }
  for (const ir::NodeId input : graph.inputs())
    is_replaced_[input.index] = replaced.contains(graph.node(input).attrs.text("name"));
}

void ValueLives::add_reader(ir::ValueId value, uint32_t node) {
  std::vector<uint32_t>& readers = readers_[value.index];
  const auto at = std::lower_bound(readers.begin(), readers.end(), node);
  if (at == readers.end() || *at != node) readers.insert(at, node);
}

void ValueLives::remove_reader(ir::ValueId value, uint32_t node) {
  std::vector<uint32_t>& readers = readers_[value.index];
  const auto at = std::lower_bound(readers.begin(), readers.end(), node);
  if (at != readers.end() && *at == node) readers.erase(at);
}

int64_t ValueLives::last_read(ir::ValueId value) const {
  if (is_output(value)) return static_cast<int64_t>(graph_.nodes().size());
  return readers(value).empty() ? -1 : static_cast<int64_t>(readers(value).back());
}

int64_t ValueLives::held_until(ir::ValueId value) const {
  int64_t last = last_read(value);
  for (const uint32_t reader : readers(value))
    if (is_view(graph_.nodes()[reader])) last = std::max(last, held_until(graph_.nodes()[reader].results[0]));
  return last;
}

ir::NodeId ValueLives::origin(ir::ValueId value) const {
  while (is_view(graph_.producer(value))) value = graph_.producer(value).operands[0];
  return graph_.value(value).producer;
}

}  // namespace megacpp::schedule
