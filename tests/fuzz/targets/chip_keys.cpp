// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/fuzz/chip_check.h"
#include "tests/fuzz/json_tree.h"

namespace megacpp::fuzz {
namespace {

constexpr const char* kTorus = R"({
  "title": "Fuzz torus", "kind": "tpu", "aliases": ["torus"],
  "sources": {"page": {"text": "a page", "date": "2026-11-15"}, "own": {"text": "measured", "date": "2026-11-16"}},
  "memory": {"source": "page", "nominal": "32GiB", "usable": {"value": 33546039296, "source": "own"},
    "reserved": {"value": 813699072, "source": "own"}, "alignment": {"value": 512, "source": "own"}, "bandwidth": 1640e9},
  "xla": {"code_least": {"value": 37680640, "source": "own"}, "code_most": {"value": 563241984, "source": "own"},
    "gaps_most": {"value": 1.4, "source": "own"}, "gaps_least": 0.8, "off_most": 0.15, "unrolled_off_most": 0.3,
    "compiler": "Built on Nov 1 2026"},
  "compute": {"source": "page", "bf16": 918e12, "int8": 1836e12},
  "tiles": {"source": "own", "lanes": 128, "rows": {"8": 8, "16": 8, "32": 8}, "tall_rows": {"8": 32}},
  "links": [
    {"name": "ici", "scope": "slice", "source": "page", "bytes_per_second": 400e9, "ports": 4, "latency": 0.5e-6},
    {"name": "dcn", "scope": "cluster", "source": "page", "bytes_per_second": 12.5e9, "ports": 1, "latency": 10e-6}],
  "slices": {"source": "page", "shape": "torus", "valid": ["1x1", "2x2", "2x4", "4x4"], "ring_multiple": 16, "host": "2x2"}
})";

constexpr const char* kNodes = R"({
  "title": "Fuzz nodes", "kind": "gpu", "device_names": ["Fuzz Card 80GB"],
  "sources": {"sheet": {"text": "a sheet", "date": "2026-11-15"}},
  "memory": {"source": "sheet", "nominal": "141GiB", "usable": "139GiB", "alignment": 256, "bandwidth": 4.8e12},
  "compute": {"source": "sheet", "bf16": 989e12, "f32": 67e12},
  "recompute": {"source": "sheet", "selective_speed": {"bf16": 1.08}, "selective_memory": {"bf16": 0.65}},
  "links": [
    {"name": "nvlink", "scope": "node", "source": "sheet", "bytes_per_second": 450e9, "ports": 1, "latency": 3.4e-6},
    {"name": "network", "scope": "cluster", "source": "sheet", "bytes_per_second": 50e9, "ports": 1, "latency": 14e-6}],
  "slices": {"source": "sheet", "shape": "nodes", "host": 8}
})";

constexpr const char* kExtending = R"({
  "extends": "v5p", "title": "Fuzz blocks", "sources": {"own": {"text": "measured", "date": "2026-11-16"}},
  "memory": {"usable": {"value": 33546039296, "source": "own"}}
})";

void read_changed_chip(Bytes input) {
  Choices choices(input);
  base::Json document = base::Json::parse(choices.any_of({kTorus, kNodes, kExtending}));
  change_tree(document, choices);
  read_chip_text(base::to_text(document));
}

}  // namespace

Target chip_keys_target() {
  return {.name = "chip_keys", .subject = "keys and values of a chip file", .weight = 100, .run = read_changed_chip};
}

}  // namespace megacpp::fuzz
