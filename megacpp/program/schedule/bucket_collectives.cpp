// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/bucket_collectives.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/collective_traffic.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// Small tensors, of at most this many elements, cost their latency: they are never worth a call of their own.
constexpr int64_t kFewElements = 64;
constexpr uint32_t kNever = UINT32_MAX;
constexpr std::string_view kAsOne = " as one: ";  // behind the number of collectives in the cause of a bucket

// Two nodes may share a bucket only when these agree.
struct Key {
  std::string op;
  std::string axes;
  std::string variant;  // ops::Transfer::bucket_key
  Traffic traffic;
  bool is_of_weights;
  bool only_replaces_state;
  uint32_t level;
  auto operator<=>(const Key&) const = default;
};

struct Bucket {
  std::vector<uint32_t> members;  // nodes
  int64_t bytes = 0;
  uint32_t first_read = kNever;  // of any member's results
};

using Joins = ops::Transfer::Joins;

Joins joins_of(const ir::Node& node) {
  const ops::Transfer* const transfer = ops::transfer_of(node);
  return transfer == nullptr ? Joins::never : transfer->joins;
}

class Bucketer {
 public:
  Bucketer(const ir::Graph& graph, const BucketPolicy& policy)
      : graph_(graph), policy_(policy), map_(map_traffic(graph)), bucket_of_(graph.nodes().size(), -1) {}

  /// Every bucket, of one member too; bucket_of() names a node's.
  std::vector<Bucket> run() {
    find_first_reads();
    find_levels();
    std::vector<uint32_t> by_policy, together;
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      if (is_by_policy(n)) by_policy.push_back(n);
      if (is_together(n)) together.push_back(n);
    }
    if (policy_.order == BucketPolicy::Order::reversed) std::reverse(by_policy.begin(), by_policy.end());
    for (const uint32_t n : by_policy) policy_.unit == BucketPolicy::Unit::block ? add_by_block(n) : add_by_bytes(n);
    for (const uint32_t n : together) add_together(n);
    return std::move(buckets_);
  }

  const std::vector<int>& bucket_of() const { return bucket_of_; }
  bool is_of_weights(uint32_t n) const { return map_.is_of_weights[n]; }

 private:
  bool is_by_policy(uint32_t n) const {
    const Traffic traffic = map_.traffic[n];
    return policy_.unit != BucketPolicy::Unit::none && (traffic == Traffic::weight || traffic == Traffic::gradient);
  }

  bool is_together(uint32_t n) const {
    const ir::Node& node = graph_.nodes()[n];
    if (map_.traffic[n] == Traffic::none || is_by_policy(n)) return false;
    const Joins joins = joins_of(node);
    if (joins != Joins::small_tensors) return joins == Joins::always;
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ir::ValueId operand) { return graph_.type(operand).elements() <= kFewElements; });
  }

  void find_first_reads() {
    first_read_.assign(graph_.nodes().size(), kNever);
    for (uint32_t n = static_cast<uint32_t>(graph_.nodes().size()); n-- > 0;)
      for (const ir::ValueId operand : graph_.nodes()[n].operands)
        first_read_[graph_.value(operand).producer.index] = n;
  }

  // How many nodes that may be combined are on the longest way to a node. Nodes of one level do not depend on each
  // other, and every bucket of a level only on lower ones: no set of buckets can wait for itself. Nodes that only
  // replace state come after all others, so that their levels count from anew and agree between blocks.
  void find_levels() {
    level_.assign(graph_.nodes().size(), 0);
    for (uint32_t n = 0; n < level_.size(); ++n) {
      for (const ir::ValueId operand : graph_.nodes()[n].operands) {
        const uint32_t from = graph_.value(operand).producer.index;
        if (map_.only_replaces_state[n] && !map_.only_replaces_state[from]) continue;
        const uint32_t counted = is_by_policy(from) || is_together(from) ? 1 : 0;
        level_[n] = std::max(level_[n], level_[from] + counted);
      }
    }
  }

  Key key(uint32_t n) const {
    const ir::Node& node = graph_.nodes()[n];
    return {node.op,
            node.attrs.text("axes"),
            ops::transfer_of(node)->bucket_key(node.attrs, graph_.type(node.operands[0]).dtype),
            map_.traffic[n],
            map_.is_of_weights[n],
            map_.only_replaces_state[n],
            level_[n]};
  }

  // A visit ends where the gathers, or the reductions, of another block begin.
  void add_by_block(uint32_t n) {
    const auto block = std::string(ir::scope_block(graph_.nodes()[n].scope));
    std::string& current = current_block_[map_.traffic[n]];
    if (block != current) close_all(map_.traffic[n]);
    current = block;
    add(n);
  }

  void add_by_bytes(uint32_t n) {
    Bucket& bucket = add(n);
    if (bucket.bytes >= policy_.bytes) open_.erase(key(n));
  }

  void add_together(uint32_t n) {
    const auto open = open_.find(key(n));
    if (open != open_.end() && !is_ready_with(buckets_[open->second], n)) open_.erase(open);
    add(n);
  }

  // Few numbers may wait for each other; larger tensors travel as soon as they can.
  bool is_ready_with(const Bucket& bucket, uint32_t n) const {
    if (bucket.first_read <= n) return false;
    const std::vector<ir::ValueId>& operands = graph_.nodes()[n].operands;
    return joins_of(graph_.nodes()[n]) != Joins::always ||
           std::all_of(operands.begin(), operands.end(), [&](ir::ValueId operand) {
             return graph_.value(operand).producer.index < bucket.members.front();
           });
  }

  void close_all(Traffic traffic) {
    std::erase_if(open_, [traffic](const auto& entry) { return entry.first.traffic == traffic; });
  }

  // What is narrowed again for a second gather is the same tensor.
  uint32_t source_of(ir::ValueId operand) const {
    const ir::Node& maker = graph_.producer(operand);
    return maker.op == "convert" ? maker.operands[0].index : operand.index;
  }

  // What is gathered a second time is wanted later, not twice now.
  bool repeats_operand(const Bucket& bucket, uint32_t n) const {
    const auto& operands = graph_.nodes()[n].operands;
    return std::any_of(operands.begin(), operands.end(), [&](ir::ValueId operand) {
      const auto at = last_bucket_.find(source_of(operand));
      return at != last_bucket_.end() && &buckets_[at->second] == &bucket;
    });
  }

  Bucket& add(uint32_t n) {
    auto open = open_.find(key(n));
    if (open != open_.end() && repeats_operand(buckets_[open->second], n)) {
      open_.erase(open);
      open = open_.end();
    }
    if (open == open_.end()) {
      open = open_.emplace(key(n), buckets_.size()).first;
      buckets_.emplace_back();
    }
    Bucket& bucket = buckets_[open->second];
    bucket.members.push_back(n);
    bucket.bytes += bytes_of(n);
    bucket.first_read = std::min(bucket.first_read, first_read_[n]);
    bucket_of_[n] = static_cast<int>(open->second);
    for (const ir::ValueId operand : graph_.nodes()[n].operands) last_bucket_[source_of(operand)] = open->second;
    return bucket;
  }

  // Of the whole tensors, with what it takes to start each at a multiple.
  int64_t bytes_of(uint32_t n) const {
    const ir::Node& node = graph_.nodes()[n];
    int64_t bytes = 0;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ir::TensorType &in = graph_.type(node.operands[i]), &out = graph_.type(node.results[i]);
      const int64_t elements = std::max(in.elements(), out.elements()), multiple = policy_.start_multiple;
      bytes += (elements + multiple - 1) / multiple * multiple * ir::dtype_bytes(in.dtype);
    }
    return bytes;
  }

  const ir::Graph& graph_;
  const BucketPolicy& policy_;
  const TrafficMap map_;
  std::vector<uint32_t> first_read_;  // by node: the first node that reads a result
  std::vector<uint32_t> level_;       // by node
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by node; -1: none
  std::map<Key, size_t> open_;  // the bucket that takes the next node of this key
  std::map<Traffic, std::string> current_block_;
  std::map<uint32_t, size_t> last_bucket_;  // by operand
};

// Writes the graph with each bucket as one node: always the ready item that stood first in the graph.
class Combiner {
 public:
  Combiner(const ir::Graph& graph, const std::vector<Bucket>& buckets, const Bucketer& bucketer)
      : graph_(graph), buckets_(buckets), bucketer_(bucketer), rewriter_(graph) {}

  ir::Graph run() {
    const size_t nodes = graph_.nodes().size();
    std::vector<size_t> waits(nodes, 0);  // by item: operands not there yet, one for each reading
    for (uint32_t n = 0; n < nodes; ++n) waits[item_of(n)] += graph_.nodes()[n].operands.size();
    std::vector<std::vector<uint32_t>> readers(graph_.values().size());  // items, once for each reading
    for (uint32_t n = 0; n < nodes; ++n)
      for (const ir::ValueId operand : graph_.nodes()[n].operands) readers[operand.index].push_back(item_of(n));
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t n = 0; n < nodes; ++n)
      if (item_of(n) == n && waits[n] == 0) ready.push(n);
    size_t written = 0;
    while (!ready.empty()) {
      const uint32_t item = ready.top();
      ready.pop();
      for (const uint32_t n : members_of(item)) {
        ++written;
        for (const ir::ValueId result : graph_.nodes()[n].results)
          for (const uint32_t reader : readers[result.index])
            if (--waits[reader] == 0) ready.push(reader);
      }
      write(item);
    }
    MEGACPP_CHECK(written == nodes) << "buckets wait for each other";
    return rewriter_.finish();
  }

 private:
  // The node whose place the item takes: a node's own, or the first or last member's.
  uint32_t item_of(uint32_t n) const {
    const int b = bucketer_.bucket_of()[n];
    if (b < 0) return n;
    const std::vector<uint32_t>& members = buckets_[static_cast<size_t>(b)].members;
    const auto [first, last] = std::minmax(members.front(), members.back());
    return bucketer_.is_of_weights(n) ? first : last;
  }

  std::vector<uint32_t> members_of(uint32_t item) const {
    const int b = bucketer_.bucket_of()[item];
    return b < 0 ? std::vector<uint32_t>{item} : buckets_[static_cast<size_t>(b)].members;
  }

  void write(uint32_t item) {
    const std::vector<uint32_t> members = members_of(item);
    if (members.size() == 1) return rewriter_.copy(graph_.nodes()[item]);
    ir::Node node = graph_.nodes()[members[0]];
    node.operands.clear();
    node.results.clear();
    node.scope = common_scope(members);
    node.role = role_of(members);
    std::vector<int64_t> dims;
    std::vector<ir::TensorType> types;
    for (const uint32_t n : members) {
      const ir::Node& member = graph_.nodes()[n];
      for (const ir::ValueId operand : member.operands) node.operands.push_back(rewriter_.map(operand));
      for (const ir::ValueId result : member.results) types.push_back(graph_.type(result));
      if (member.attrs.has("dims"))
        dims.insert(dims.end(), member.attrs.list("dims").begin(), member.attrs.list("dims").end());
    }
    if (!dims.empty()) node.attrs.set("dims", std::move(dims));
    if (node.attrs.has("cause"))
      node.attrs.set("cause",
                     std::to_string(members.size()) + std::string(kAsOne) + std::string(node.attrs.text("cause")));
    std::vector<ir::ValueId> results;
    for (const uint32_t n : members)
      results.insert(results.end(), graph_.nodes()[n].results.begin(), graph_.nodes()[n].results.end());
    rewriter_.replace(results, std::move(node), types);
  }

  // What one member keeps for the backward pass, the bucket keeps.
  ir::Role role_of(const std::vector<uint32_t>& members) const {
    const bool is_kept = std::any_of(members.begin(), members.end(),
                                     [&](uint32_t n) { return graph_.nodes()[n].role == ir::Role::activation; });
    return is_kept ? ir::Role::activation : ir::Role::collective;
  }

  // What all scopes begin with, in whole parts; the first one's where they share nothing.
  std::string common_scope(const std::vector<uint32_t>& members) const {
    const std::string& first = graph_.nodes()[members[0]].scope;
    std::string scope = first;
    for (const uint32_t n : members) {
      const std::string other = graph_.nodes()[n].scope + ".";
      while (!scope.empty() && other.rfind(scope + ".", 0) != 0) {
        const size_t dot = scope.rfind('.');
        scope.resize(dot == std::string::npos ? 0 : dot);
      }
    }
    return scope.empty() ? first : scope;
  }

  const ir::Graph& graph_;
  const std::vector<Bucket>& buckets_;
  const Bucketer& bucketer_;
  Rewriter rewriter_;
};

}  // namespace

std::string_view first_cause(std::string_view cause) {
  const size_t digits = cause.find_first_not_of("0123456789");
  const bool is_bucket = digits != 0 && digits != std::string_view::npos && cause.substr(digits).starts_with(kAsOne);
  return is_bucket ? cause.substr(digits + kAsOne.size()) : cause;
}

ir::Graph bucket_collectives(const ir::Graph& graph, const BucketPolicy& policy) {
  Bucketer bucketer(graph, policy);
  const std::vector<Bucket> buckets = bucketer.run();
  const bool any = std::any_of(buckets.begin(), buckets.end(), [](const Bucket& b) { return b.members.size() > 1; });
  return any ? Combiner(graph, buckets, bucketer).run() : graph;
}

}  // namespace megacpp::schedule
