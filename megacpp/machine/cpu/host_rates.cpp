// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/host_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cpu/measure.h"
#include "megacpp/machine/cpu/packing_buffers.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/runtime/blas_kernels.h"
#include "megacpp/machine/runtime/processor.h"

namespace megacpp::runtime::cpu {
namespace {

/// Of the machine, or of the container around us if that is less.
int64_t memory_bytes() {
  const int64_t bytes = base::machine_memory_bytes();
  return std::min(bytes, base::container_memory_limit().value_or(bytes));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

void write(const hw::HostRates& rates, const std::filesystem::path& file) {
  base::make_folder(file.parent_path());
  base::write_file_atomically(file, base::to_text(hw::to_json(rates)) + "\n");
}

// As in chip files, less than one a second divides to no usable time.
bool is_rate(double rate) { return std::isfinite(rate) && rate >= 1; }

// An earlier version did not measure all of them.
bool is_plausible(const hw::HostRates& rates) {
  return std::ranges::all_of(std::array{rates.matrix_flops, rates.scan_flops, rates.bytes_per_second}, is_rate);
}

/// What is kept of this very machine; nothing where the file is missing, damaged or another's.
std::optional<hw::HostRates> read(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  try {
    hw::HostRates rates = hw::host_rates_of(base::parse_json(base::read_file(file), base::Code::E1008, file.string()));
    rates.memory = memory_bytes();  // a container's limit may have changed
    const bool is_ours = rates.processor == this_processor().name() && rates.cores == available_threads() &&
                         rates.kernels == blas_kernels();
    return is_ours && is_plausible(rates) ? std::optional(rates) : std::nullopt;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

}  // namespace

hw::HostRates measure_host_rates() {
  const PackingBuffers packing(available_threads());
  base::ThreadPool pool(available_threads());
  hw::HostRates rates = measure_rates(pool);
  rates.cores = available_threads();
  rates.memory = memory_bytes();
  rates.processor = this_processor().name();
  rates.kernels = blas_kernels();
  rates.date = today();
  return rates;
}

std::filesystem::path host_rates_file() {
  const std::filesystem::path folder = plugins::user_cache_folder(plugins::Surroundings::current());
  return folder.empty() ? folder : folder / "host-rates.json";
}

hw::HostRates renew_host_rates(const std::filesystem::path& file, HostMeasurement measure) {
  const hw::HostRates rates = measure();
  if (!file.empty()) write(rates, file);
  return rates;
}

hw::HostRates host_rates(const std::filesystem::path& file, HostMeasurement measure) {
  if (const std::optional<hw::HostRates> kept = read(file)) return *kept;
  const hw::HostRates rates = measure();
  // Another process may have measured meanwhile: whoever wrote first is believed, so that all plan alike.
  if (const std::optional<hw::HostRates> kept = read(file)) return *kept;
  try {
    if (!file.empty()) write(rates, file);
  } catch (const base::Error&) {
    // It is measured again the next time.
  }
  return rates;
}

}  // namespace megacpp::runtime::cpu
