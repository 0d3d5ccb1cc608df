// SPDX-License-Identifier: Apache-2.0
// Where the tokens of a run come from. A source gives training sequences by number: which tokens sequence `sample` of a
// run holds is a pure function of (seed, sample), the length of a sequence and the source itself. It depends neither on
// batch size nor on layout, so the position of a run in its data is one integer, the samples it has consumed. Reading
// never changes a source, allocates nothing and may happen on several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megacpp::data {

/// Where a run stands in its data.
struct Position {
  int64_t samples_consumed = 0;

  bool operator==(const Position&) const = default;
};

/// Which part of a source is read, and in which order. The held-out part is the end of every source; training draws
/// from the rest in an order of its own per seed, evaluation reads the held-out part front to back.
struct Draw {
  enum class Part : uint8_t { training, held_out };
  uint64_t seed = 0;
  double held_out = 0;  // of each source, below 1
  Part part = Part::training;
};

/// A file or a dataset of a source.
struct SourcePart {
  std::string name;
  uint64_t fingerprint = 0;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Sequences of `length` tokens, and the token after each, that the part has; more samples begin another epoch.
  virtual int64_t sequences(const Draw& draw, int64_t length) const = 0;

  /// Tokens of one sample, and for each but the last which document of the sample it is in, counted from 0.
  /// tokens: [length + 1]; segments: [length], or empty where nobody asks. The part must have a sequence.
  virtual void read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const = 0;

  /// The smallest vocabulary that surely has all tokens; 0 where only reading them tells.
  virtual int64_t vocabulary() const = 0;

  /// Of all that decides what is read: another number, other data.
  virtual uint64_t fingerprint() const = 0;

  /// What it is made of, to tell which part has changed: another fingerprint here, another one of the whole.
  virtual std::vector<SourcePart> parts() const { return {{.name = describe(), .fingerprint = fingerprint()}}; }

  /// For people: "1.2 MB of text from 3 files".
  virtual std::string describe() const = 0;

 protected:
  TokenSource() = default;
  TokenSource(const TokenSource&) = default;
  TokenSource& operator=(const TokenSource&) = default;
};

/// Units of a source that training may use, and those held out behind them.
struct Parts {
  int64_t training, held_out;
};
Parts parts_of(int64_t units, double held_out);

/// Where `index` of [0, size) goes in epoch `epoch` of a seed: a permutation of [0, size), computed without a table.
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t index, int64_t size);

}  // namespace megacpp::data
