// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/host_rates.h"

#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/json_text.h"
#include "megacpp/base/thread_pool.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/plugins/plugin_places.h"

namespace megacpp::runtime::cpu {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.2;           // for each of the three
constexpr double kLongEnough = 0.02;       // of one product, to be measured well
constexpr int64_t kSmallestProduct = 512;  // rows and columns
constexpr int64_t kLargestProduct = 4096;
constexpr int64_t kShortDepth = 32;              // as in the heads of attention
constexpr int64_t kCopied = int64_t{128} << 20;  // bytes: beyond the last cache

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest of several runs: what the machine can do when nothing disturbs it.
template <typename Body>
double best_seconds(const Body& body) {
  double best = seconds_of(body);
  for (double spent = best; spent < kSeconds;) {
    const double seconds = seconds_of(body);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// A square result whose elements are sums of `depth` products.
struct Product {
  Product(int64_t side, int64_t depth)
      : a(static_cast<size_t>(side * depth), 1.0F),
        b(static_cast<size_t>(side * depth), 0.5F),
        c(static_cast<size_t>(side * side)),
        gemm{.m = side,
             .n = side,
             .k = depth,
             .a = a.data(),
             .lda = depth,
             .b = b.data(),
             .ldb = side,
             .c = c.data(),
             .ldc = side} {}
  Product(const Product&) = delete;  // gemm points into the object
  Product& operator=(const Product&) = delete;

  double flops() const {
    return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  }
  double flops_per_second(base::ThreadPool& pool) const {
    return flops() / best_seconds([&] { parallel_gemm(gemm, pool); });
  }

  std::vector<float> a, b, c;
  Gemm gemm;
};

struct ProductRates {
  double peak = 0, half_depth = 0;
};

// Between long and short sums a rate of peak * depth / (depth + half_depth) runs through both that are measured.
ProductRates measure_products(base::ThreadPool& pool) {
  for (int64_t side = kSmallestProduct;; side *= 2) {
    const Product product(side, side);
    const auto run = [&] { parallel_gemm(product.gemm, pool); };
    run();  // warms caches and threads
    if (seconds_of(run) < kLongEnough && side < kLargestProduct) continue;
    const double peak = product.flops_per_second(pool);
    const double brief = Product(side, kShortDepth).flops_per_second(pool);
    return {peak, static_cast<double>(kShortDepth) * std::max(0.0, peak / brief - 1)};
  }
}

double measure_copies(base::ThreadPool& pool) {
  std::vector<char> from(kCopied, 1), to(kCopied, 2);
  const double seconds = best_seconds([&] {
    pool.parallel_for(kCopied, 4096, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * static_cast<double>(kCopied) / seconds;  // read and written
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU implementer")) implementer = line.substr(colon + 2);
    if (line.starts_with("CPU part")) part = line.substr(colon + 2);
  }
  return part.empty() ? "" : "Arm implementer " + implementer + " part " + part;
}

/// Of the machine, or of the container around us if that is less.
int64_t memory_bytes() {
  int64_t bytes = 0, limit = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;)
    if (int64_t kibibytes = 0; word == "MemTotal:" && meminfo >> kibibytes) bytes = kibibytes * 1024;
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");  // a number, or "max"
  return cgroup >> limit ? std::min(bytes, limit) : bytes;
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
  base::write_file_atomically(file, base::to_text(Json(Json::Object{{"processor", Json(rates.processor)},
                                                                    {"cores", Json(rates.cores)},
                                                                    {"matrix_flops", Json(rates.matrix_flops)},
                                                                    {"half_depth", Json(rates.half_depth)},
                                                                    {"bytes_per_second", Json(rates.bytes_per_second)},
                                                                    {"date", Json(rates.date)}})) +
                                        "\n");
}

/// What is kept of this very machine; nothing where the file is missing, damaged or another's.
std::optional<hw::HostRates> read(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  try {
    const Json json = base::parse_json(base::read_file(file), base::Code::E1008, file.string());
    const auto number = [&](const char* key) {
      const Json* value = json.find(key);
      return value == nullptr ? 0 : value->number().value_or(0);
    };
    const auto text = [&](const char* key) {
      const Json* value = json.find(key);
      const std::string* text = value == nullptr ? nullptr : value->get_if<std::string>();
      return text == nullptr ? "" : *text;
    };
    hw::HostRates rates{.matrix_flops = number("matrix_flops"),
                        .half_depth = number("half_depth"),
                        .bytes_per_second = number("bytes_per_second"),
                        .cores = static_cast<int64_t>(number("cores")),
                        .memory = memory_bytes(),
                        .processor = text("processor"),
                        .date = text("date")};
    const bool is_ours = rates.processor == processor() && rates.cores == available_threads();
    const bool is_whole = json.find("half_depth") != nullptr;  // earlier versions did not measure it
    if (!is_ours || !is_whole || !(rates.matrix_flops > 0) || !(rates.bytes_per_second > 0)) return std::nullopt;
    return rates;
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

}  // namespace

hw::HostRates measure_host_rates() {
  base::ThreadPool pool(available_threads());
  const ProductRates products = measure_products(pool);
  return {.matrix_flops = products.peak,
          .half_depth = products.half_depth,
          .bytes_per_second = measure_copies(pool),
          .cores = available_threads(),
          .memory = memory_bytes(),
          .processor = processor(),
          .date = today()};
}

std::filesystem::path host_rates_file() {
  const std::filesystem::path folder = plugins::user_cache_folder(plugins::Surroundings::current());
  return folder.empty() ? folder : folder / "host-rates.json";
}

hw::HostRates renew_host_rates(const std::filesystem::path& file) {
  const hw::HostRates rates = measure_host_rates();
  if (!file.empty()) write(rates, file);
  return rates;
}

hw::HostRates host_rates(const std::filesystem::path& file) {
  if (const std::optional<hw::HostRates> kept = read(file)) return *kept;
  const hw::HostRates rates = measure_host_rates();
  try {
    if (!file.empty()) write(rates, file);
  } catch (const base::Error&) {
    // It is measured again the next time.
  }
  return rates;
}

}  // namespace megacpp::runtime::cpu
