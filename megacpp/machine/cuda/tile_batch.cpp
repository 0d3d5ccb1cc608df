// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/tile_batch.h"

#include <map>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/tile_source.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

using TileGroup = std::vector<const BoundTile*>;  // of one source

std::function<void()> prepare_batch(const TileGroup& group, Toolbox& toolbox, Stream* stream) {
  TileTable table = make_tile_table(group);
  const std::string& source = group.front()->table->source;
  const Function first = toolbox.generated(source, kTileBatchKernel);
  const Function second = table.combines ? toolbox.generated(source, kTileCombineBatchKernel) : Function{};
  const LaunchShape all = tile_launch(table.blocks), entries = tile_launch(std::ssize(group));
  return [=, table = std::move(table)] {
    const std::span<const std::byte> parameters = std::as_bytes(std::span(table.words));
    launch_with(first, all, stream, parameters);
    if (table.combines) launch_with(second, entries, stream, parameters);
  };
}

// Numbers of sources, in the order in which they come.
class SourceNumbers {
 public:
  int64_t operator()(const BoundTile& tile) {
    if (!tile.table) return -1;
    return numbers_.try_emplace(tile.table->source, static_cast<int64_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string_view, int64_t> numbers_;
};

void append_joined(const std::vector<BoundTile>& tiles, Toolbox& toolbox, Stream* stream,
                   std::vector<std::function<void()>>& launches) {
  SourceNumbers number_of;
  std::vector<LaunchFootprint> footprints;
  for (const BoundTile& tile : tiles)
    footprints.push_back({.kernel = number_of(tile),
                          .max_group = tile.table ? tile.table->max_entries : 1,
                          .reads = tile.reads,
                          .writes = tile.writes});
  for (const std::vector<size_t>& members : group_launches(footprints)) {
    TileGroup group;
    for (const size_t member : members) group.push_back(&tiles[member]);
    launches.push_back(group.size() == 1 ? group.front()->run : prepare_batch(group, toolbox, stream));
  }
}

std::vector<ByteRange> ranges_of(std::span<const Address> addresses, const ops::Types& types) {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < addresses.size(); ++i)
    ranges.push_back({addresses[i], addresses[i] + static_cast<Address>(types[i].bytes())});
  return ranges;
}

}  // namespace

LaunchShape tile_launch(int64_t blocks) {
  return {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {static_cast<uint32_t>(kTileThreads), 1, 1}};
}

// The driver reads the whole table, used or not.
TileTable make_tile_table(std::span<const BoundTile* const> tiles) {
  TileTable table{.words = {0}};
  size_t entry_words = 0;  // the same for all
  for (const BoundTile* const tile : tiles) {
    const TileSizes& sizes = tile->table->sizes;
    const TileBuffers buffers{.operands = tile->operands, .results = tile->results, .partials = tile->workspace};
    const TileEntry entry = tile_entry(sizes, buffers, static_cast<uint32_t>(table.blocks));
    entry_words = entry.count;
    table.words.insert(table.words.end(), entry.used().begin(), entry.used().end());
    table.blocks += sizes.blocks;
    table.combines = table.combines || sizes.parts > 1;
  }
  table.words[0] = tiles.size() | static_cast<uint64_t>(entry_words) << 32;
  constexpr size_t kWords = kMaxParameterBytes / sizeof(uint64_t);
  MEGACPP_CHECK(table.words.size() <= kWords) << tiles.size() << " entries do not fit a kernel's parameters";
  table.words.resize(kWords);
  return table;
}

std::function<void()> bind_launch(std::function<void(const Launch&)> run, const Launch& at) {
  return [run = std::move(run), operands = std::vector(at.operands.begin(), at.operands.end()),
          results = std::vector(at.results.begin(), at.results.end()), workspace = at.workspace, stream = at.stream] {
    run({operands, results, workspace, stream});
  };
}

BoundTile bind_tile(Prepared prepared, const ops::NodeView& view, int64_t workspace, const Launch& at) {
  BoundTile tile{.run = bind_launch(std::move(prepared.run), at),
                 .table = std::move(prepared.table),
                 .operands = {at.operands.begin(), at.operands.end()},
                 .results = {at.results.begin(), at.results.end()},
                 .workspace = at.workspace,
                 .reads = ranges_of(at.operands, view.operands),
                 .writes = ranges_of(at.results, view.results)};
  if (workspace > 0) tile.writes.push_back({at.workspace, at.workspace + static_cast<Address>(workspace)});
  return tile;
}

void LaunchList::add(std::function<void()> run) {
  MEGACPP_CHECK(run) << "a launch that does nothing";
  runs_.push_back({.tiles = std::exchange(tiles_, {}), .behind = std::move(run)});
}

std::vector<std::function<void()>> LaunchList::take(Toolbox& toolbox, Stream* stream) {
  std::vector<std::function<void()>> launches;
  for (Run& run : std::exchange(runs_, {})) {
    append_joined(run.tiles, toolbox, stream, launches);
    launches.push_back(std::move(run.behind));
  }
  append_joined(std::exchange(tiles_, {}), toolbox, stream, launches);
  return launches;
}

}  // namespace megacpp::runtime::cuda
