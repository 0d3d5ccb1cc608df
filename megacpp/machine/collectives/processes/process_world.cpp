// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/process_world.h"

#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

CallEngine::Options chips_of_process(const ProcessWorld::Options& options, int64_t process) {
  CallEngine::Options own{
      .chips = static_cast<int64_t>(options.owners.size()), .local = {}, .wait_limit = options.wait_limit};
  for (size_t chip = 0; chip < options.owners.size(); ++chip)
    if (options.owners[chip] == process) own.local.push_back(static_cast<int64_t>(chip));
  MEGACPP_CHECK(!own.local.empty()) << "process " << process << " has no chip";
  return own;
}

// Processes that this one can read, by what they state.
std::vector<std::optional<Neighbour>> readable(const std::vector<std::string>& memories, int64_t own) {
  std::vector<std::optional<Neighbour>> neighbours(memories.size());
  for (size_t process = 0; process < memories.size(); ++process)
    if (static_cast<int64_t>(process) != own)
      neighbours[process] = find_neighbour(static_cast<int64_t>(process), memories[process]);
  return neighbours;
}

// "1 2 7": numbers of processes. Those that read each other exchange no bytes, so both must.
std::string numbers_of(const std::vector<std::optional<Neighbour>>& neighbours) {
  std::string text;
  for (const std::optional<Neighbour>& neighbour : neighbours)
    if (neighbour) text += (text.empty() ? "" : " ") + std::to_string(neighbour->peer.process);
  return text;
}

std::vector<std::set<int64_t>> readers_of(const std::vector<std::string>& texts) {
  std::vector<std::set<int64_t>> readers;
  for (const std::string& text : texts) {
    std::istringstream numbers(text);
    readers.emplace_back(std::istream_iterator<int64_t>(numbers), std::istream_iterator<int64_t>());
  }
  return readers;
}

// The same words in every process.
std::string words_for(const std::vector<std::set<int64_t>>& readers) {
  int64_t pairs = 0;
  for (size_t a = 0; a < readers.size(); ++a)
    for (const int64_t b : readers[a])
      pairs += static_cast<int64_t>(a) < b && readers[static_cast<size_t>(b)].contains(static_cast<int64_t>(a)) ? 1 : 0;
  const auto count = static_cast<int64_t>(readers.size());
  if (pairs == 0) return "tensors sent";
  if (pairs == count * (count - 1) / 2) return "memory read";
  return "memory read by " + std::to_string(pairs) + " of " + std::to_string(count * (count - 1) / 2) + " pairs";
}

}  // namespace

ProcessWorld::ProcessWorld(const Options& options, std::unique_ptr<Endpoint> endpoint)
    : properties_(options.properties),
      process_(endpoint->process()),
      agreement_limit_(options.agreement_limit.value_or(options.wait_limit)),
      answer_limit_(options.answer_limit),
      engine_(chips_of_process(options, endpoint->process())),
      hosts_({endpoint->host()}),
      mover_(engine_, std::move(endpoint), options.owners,
             options.properties.has_fixed_order_sums ? Sums::exact : Sums::fast) {
  mover_.set_hosts(options.hosts);  // who does not come is named with its host
  const AgreementTimeouts timeouts = {.limit = options.join_limit, .silence = options.join_limit};
  const bool reads_memory = options.reads_memory && mover_.flags() != nullptr;
  const std::string own = hosts_.front() + "\n" + (reads_memory ? memory_statement(*mover_.flags()) : "");
  std::vector<std::string> memories;
  hosts_.clear();
  for (const std::string& stated : mover_.gather(own, timeouts)) {
    const size_t end = stated.find('\n');
    hosts_.push_back(stated.substr(0, end));
    memories.push_back(stated.substr(end + 1));
  }
  mover_.set_hosts(hosts_);
  std::vector<std::optional<Neighbour>> neighbours = readable(memories, process_);
  const std::vector<std::set<int64_t>> readers = readers_of(mover_.gather(numbers_of(neighbours), timeouts));
  for (size_t other = 0; other < neighbours.size(); ++other)
    if (!readers[other].contains(process_)) neighbours[other].reset();
  path_of_tensors_ = words_for(readers);
  mover_.set_neighbours(std::move(neighbours));
}

}  // namespace megacpp::collectives
