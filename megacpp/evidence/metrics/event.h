// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files as bytes. A file is a list of records: the length of a message, the masked CRC-32C of these
// eight bytes, the message, its masked CRC-32C; numbers are little-endian. Messages are `tensorboard.Event`, written
// with protozero field by field, so no generated code is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

/// CRC-32 with Castagnoli's polynomial, as iSCSI has it (RFC 3720).
uint32_t crc32c(std::string_view bytes);

/// One record of a file.
std::string record_of(std::string_view message);

/// Seconds since 1970, and a step from 0.
struct EventTime {
  double wall_time = 0;
  int64_t step = 0;
};

/// The records that every file begins with: what it is, and that steps from `at.step` on are run (again). Readers drop
/// those of earlier files in the folder.
std::string start_records(const EventTime& at);

/// A logged step: every metric as a scalar of its step, and the seconds of each step since the log before as one of
/// that step. Values are rounded to f32, which is what scalars of these files are.
std::string report_records(const train::StepReport& report, double wall_time);

/// When a step was logged. Logs of versions that did not write it are timed by their seconds, from the line before on.
double wall_time_of(const train::StepReport& report, double time_before);

}  // namespace megacpp::metrics
