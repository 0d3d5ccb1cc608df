// SPDX-License-Identifier: Apache-2.0
// Several sources as one, each with its part of the samples. Sample k of a source with share w is due at (k + 1/2) / w;
// the blend is all samples in the order they are due. So at every moment each source has had its share to within one
// sample or little more, for any weights, and which sample of which source comes n-th is computed from n alone.
#pragma once

#include <memory>
#include <vector>

#include "megacpp/run/data/source.h"

namespace megacpp::data {

class Blend : public TokenSource {
 public:
  struct Part {
    std::unique_ptr<const TokenSource> source;
    double weight = 1;  // above 0, finite
  };
  explicit Blend(std::vector<Part> parts);

  /// So many that the source with the most sequences for its share has been through once; 0 when one has none.
  int64_t sequences(const Draw& draw, int64_t length) const override;
  void read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const override;
  int64_t vocabulary() const override;
  uint64_t fingerprint() const override;
  /// Those of its sources, each with its share where there are several: "70.0% docs".
  std::vector<SourcePart> parts() const override;
  std::string describe() const override;

  /// Which source sample `sample` is of, and which of its samples it is.
  struct Choice {
    size_t source;
    int64_t sample;
  };
  Choice choose(int64_t sample) const;

 private:
  double share(size_t source) const;

  std::vector<Part> parts_;
  std::vector<int64_t> shares_;  // weights as whole numbers
  int64_t sum_ = 0;              // of these
};

}  // namespace megacpp::data
